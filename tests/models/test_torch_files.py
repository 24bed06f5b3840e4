"""What torch.save writes comes back; nothing in a file is run, and none takes more memory than it has bytes."""

import io
import pickle
import struct
import zipfile
from pathlib import Path

import pytest
import torch

from disol.models.torch_files import read_torch_file


def saved(value) -> bytes:
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def same(first, second) -> bool:
    if isinstance(first, torch.Tensor):
        return first.dtype == second.dtype and torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return type(first) is type(second) and all(map(same, first, second))
    return first == second


def test_what_torch_has_saved_comes_back() -> None:
    network = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    optimiser = torch.optim.Adam(network.parameters(), fused=True)
    network(torch.rand(5, 3)).sum().backward()
    optimiser.step()
    numbers = torch.arange(24.0).reshape(4, 6)
    state = {
        "network": dict(network.state_dict()),
        "optimiser": optimiser.state_dict(),
        "views": [numbers.T, numbers[1:3, ::2], numbers[0, 0]],
        "empty": torch.empty(0, 3),
        "plain": (None, True, 0, -1, 10**12, -(10**12), 0.5, "ü", [1, (2, "three")], {1: "one"}, {}),
    }
    assert same(read_torch_file(saved(state)), state)
    assert read_torch_file(saved(network.state_dict())).keys() == network.state_dict().keys()
    assert torch.equal(read_torch_file(saved(torch.nn.Parameter(numbers))), numbers)


@pytest.mark.parametrize(
    "kind", ["float64", "float16", "bfloat16", "int64", "int8", "uint8", "bool", "complex64", "uint16", "float8_e5m2"]
)
def test_numbers_of_every_kind_come_back(kind: str) -> None:
    numbers = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(getattr(torch, kind))
    read = read_torch_file(saved(numbers.T))
    assert (read.dtype, read.shape) == (numbers.dtype, (3, 2))
    assert read.T.contiguous().view(torch.uint8).tolist() == numbers.view(torch.uint8).tolist()


def test_tensors_that_share_memory_still_do() -> None:
    numbers = torch.zeros(4)
    first, second = read_torch_file(saved([numbers, numbers[2:]]))
    first[3] = 1
    assert second[1] == 1


def archive(pickled: bytes, records: dict[str, bytes] | None = None, packing=zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", packing) as file:
        for name, content in {"data.pkl": pickled, "byteorder": b"little", **(records or {})}.items():
            file.writestr(f"archive/{name}", content)
    return buffer.getvalue()


def called(module: str, name: str, *arguments: bytes) -> bytes:
    """A pickle that calls a function."""
    return b"\x80\x02" + f"c{module}\n{name}\n".encode() + b"(" + b"".join(arguments) + b"tR."


def tensor(length: int, size: int, stride: int, offset: int = 0, record: str = "0") -> bytes:
    """A pickle of one tensor: `size` numbers of a storage that claims to have `length`."""

    def number(value: int) -> bytes:
        return b"J" + struct.pack("<i", value)

    def text(value: str) -> bytes:
        return b"X" + struct.pack("<I", len(value)) + value.encode()

    storage = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text(record) + text("cpu") + number(length) + b"tQ"
    shape = number(size) + b"\x85" + number(stride) + b"\x85"
    return called("torch._utils", "_rebuild_tensor_v2", storage, number(offset), shape, b"\x89", b"N")


def test_a_tensor_written_by_hand_is_read() -> None:
    read = read_torch_file(archive(tensor(4, 2, 2, offset=1), {"data/0": struct.pack("4f", 1, 2, 3, 4)}))
    assert read.tolist() == [2, 4]


ZEROS = {"data/0": bytes(16)}
RUNS = b"cos\nsystem\n(X\x08\x00\x00\x00touch rantR."
LAUGHS = b"\x80\x02]q\x00" + b"".join(
    b"]" + b"q" + bytes([level]) + b"(" + (b"h" + bytes([level - 1])) * 20 + b"e" for level in range(1, 30)
)
BOMBS = {
    "code": archive(b"\x80\x02" + RUNS),
    "code of an old pickle": archive(b"(S'touch ran'\nios\nsystem\n."),
    "much memory": archive(called("__builtin__", "bytearray", b"J\x00\x00\x00\x70")),
    "a tensor without numbers": archive(called("torch", "empty", b"J\x00\x00\x00\x70")),
    "a storage": archive(called("torch", "FloatStorage", b"J\x00\x00\x00\x70")),
    "a storage larger than its record": archive(tensor(10**6, 10**6, 1), ZEROS),
    "numbers that repeat": archive(tensor(4, 10**9, 0), ZEROS),
    "numbers beyond the storage": archive(tensor(4, 4, 1, offset=2), ZEROS),
    "numbers before the storage": archive(tensor(4, 2, 1, offset=-2), ZEROS),
    "a negative size": archive(tensor(4, -1, 1), ZEROS),
    "a negative length": archive(tensor(-4, 1, 1), ZEROS),
    "no record": archive(tensor(4, 4, 1, record="../0"), ZEROS),
    "packed zeros": archive(tensor(10**7, 10**7, 1), {"data/0": bytes(4 * 10**7)}, zipfile.ZIP_DEFLATED),
    "a long table": archive(b"\x80\x02Nr\xff\xff\xff\x7f."),
    "a long text": archive(b"\x80\x02X\xff\xff\xff\x7fa."),
    "bytes to come": archive(b"\x80\x05\x96\xff\xff\xff\xff\x00\x00\x00\x00a."),
    "a state of a tensor": archive(tensor(4, 4, 1)[:-1] + b"NNNN(tb.", ZEROS),
    "deep lists": archive(b"\x80\x02" + b"](" * 10**5 + b"e" * 10**5 + b"."),
    "many laughs": archive(LAUGHS + b"."),
    "another processor": archive(b"\x80\x02N.", {"byteorder": b"big"}),
    "two pickles": archive(b"\x80\x02N.", {"a/data.pkl": b"\x80\x02N."}),
    "no pickle": archive(b""),
    "nothing": b"",
    "text": b"no archive",
    "a plain pickle": pickle.dumps([1]),
    "half a file": saved(torch.ones(100))[:700],
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("content", BOMBS.values(), ids=BOMBS)
def test_what_torch_would_not_write_is_refused(content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pickle.UnpicklingError) as raised:
        read_torch_file(content)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300
    assert not list(tmp_path.iterdir())
