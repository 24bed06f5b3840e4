"""Released files are read by name; files of cases leave as plain NumPy archives."""

import json
import os
import pickle
import random
import tracemalloc
from dataclasses import replace
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
import pytest
import torch

from disol.data import create_store, export_npz, open_store, read_released
from disol.errors import DisolError
from disol.problems.table import PROBLEMS


def released_inputs(problem: str, cases: int = 3, side: int = 12) -> torch.Tensor:
    channels = [name for name in PROBLEMS[problem].channels if name != "time"]
    generator = torch.Generator().manual_seed(0)
    markers = torch.randint(0, 2, (cases, len(channels), side, side), generator=generator).float()
    real = torch.rand(markers.shape, generator=generator)
    is_real = torch.tensor([name in ("source", "initial") for name in channels])[:, None, None]
    sign = 1 - 2 * torch.tensor([name == "force_y" for name in channels])[:, None, None].float()
    return torch.where(is_real, real, sign * markers)


@pytest.mark.parametrize("problem", ["poisson", "elasticity"])
def test_both_released_layouts_hold_the_same_named_arrays(problem: str, tmp_path: Path) -> None:
    inputs, outputs = released_inputs(problem), torch.rand(3, len(PROBLEMS[problem].fields), 12, 12)
    torch.save({"inp": inputs, "out": outputs, "lim": torch.rand(3, 1)}, tmp_path / "train.pt")
    torch.save({"inputs": inputs, "outputs": outputs, "indices": torch.arange(3)}, tmp_path / "test.pt")
    train, test = (read_released(tmp_path / name, problem) for name in ("train.pt", "test.pt"))
    for position, name in enumerate(PROBLEMS[problem].channels):
        assert np.array_equal(train[name], inputs[:, position])
        assert np.array_equal(train[name], test[name])
    assert np.array_equal(train["pattern"], outputs)
    assert np.array_equal(test["pattern"], outputs)
    assert train["amplitude"].shape == (3,)
    assert test["index"].tolist() == [0, 1, 2]


def test_released_frames_of_heat_become_the_second_axis(tmp_path: Path) -> None:
    inputs, outputs = released_inputs("heat"), torch.rand(3, 1, 12, 12, 50)
    torch.save({"inp": inputs, "out": outputs, "lim": torch.rand(3)}, tmp_path / "heat.pt")
    arrays = read_released(tmp_path / "heat.pt", "heat")
    assert arrays["pattern"].shape == (3, 50, 1, 12, 12)
    assert np.array_equal(arrays["pattern"][1, 7, 0], outputs[1, 0, :, :, 7])
    assert "time" not in arrays


def test_the_authors_samples_survive_their_own_layout(released_data: Path, tmp_path: Path) -> None:
    with np.load(released_data / "poisson_published.npz") as file:
        samples = dict(file)
    content = {name: torch.from_numpy(samples[name]) for name in ("inputs", "outputs")}
    torch.save(content, tmp_path / "samples.pt")
    arrays = read_released(tmp_path / "samples.pt", "poisson")
    assert np.array_equal(arrays["source"], samples["inputs"][:, 2])
    assert arrays["domain"].dtype == bool
    assert not arrays["pattern"][:, 0][~arrays["domain"]].any()


def test_files_that_are_not_released_data_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.pt").write_text("not tensors")
    torch.save({"epoch": 3}, tmp_path / "checkpoint.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    torch.save({"inp": torch.zeros(1, 4, 8, 8), "out": torch.zeros(1, 1, 8, 8)}, tmp_path / "channels.pt")
    torch.save({"inp": torch.zeros(1, 3, 8, 8), "out": torch.zeros(1, 2, 8, 8)}, tmp_path / "fields.pt")
    torch.save({"inp": torch.full((1, 3, 8, 8), 0.5), "out": torch.zeros(1, 1, 8, 8)}, tmp_path / "grey.pt")
    for name, message in [
        ("missing.pt", "Cannot read .*missing.pt: No such file"),
        ("text.pt", "not a file of tensors"),
        ("checkpoint.pt", "got epoch"),
        ("list.pt", "dictionary, got list"),
        ("channels.pt", r"\[case, 3, height, width\], got \(1, 4, 8, 8\)"),
        ("fields.pt", r"got \(1, 2, 8, 8\)"),
        ("grey.pt", "domain must hold only 0, 1"),
    ]:
        with pytest.raises(ValueError, match=message) as raised:
            read_released(tmp_path / name, "poisson")
        assert "\n" not in str(raised.value)


def hostile_files(folder: Path) -> dict[str, str]:
    """Write files that nobody should trust, and return why each is refused."""
    inputs, outputs = torch.zeros(2, 3, 8, 8), torch.zeros(2, 1, 8, 8)
    contents = {
        "sparse": {"inp": inputs.to_sparse(), "out": outputs},
        "meta": {"inp": inputs.to("meta"), "out": outputs},
        "complex": {"inp": inputs.cfloat(), "out": outputs},
        "repeated": {"inp": torch.zeros(1).expand(10**6, 3, 4096, 4096), "out": outputs},
        "list": {"inp": [[0.0]], "out": outputs},
        "text": {"inp": "text", "out": outputs},
        "number": {"inp": inputs, "out": outputs, "lim": 3.0},
        "amplitudes": {"inp": inputs, "out": outputs, "lim": torch.zeros(3)},
        "scalar": {"inp": inputs, "out": outputs, "lim": torch.tensor(3.0)},
        "indices": {"inp": inputs, "out": outputs, "indices": torch.zeros(0)},
        "cases": {"inp": inputs, "out": outputs[:1]},
        "grid": {"inp": inputs, "out": outputs[..., :4]},
        "axes": {"inp": inputs, "out": torch.tensor(1.0)},
        "keys": {1: inputs, (2, 3): outputs},
        "many": {f"key {number}": number for number in range(1000)},
        "texts": {"inp": inputs, "out": outputs, "note": "x" * 2**21},
    }
    for name, content in contents.items():
        torch.save(content, folder / f"{name}.pt")
    torch.save({"inp": inputs, "out": outputs}, folder / "old.pt", _use_new_zipfile_serialization=False)
    torch.save(Ran(folder / "ran"), folder / "code.pt")
    (folder / "pickle.pt").write_bytes(pickle.dumps(Ran(folder / "ran")))
    with ZipFile(folder / "list.pt") as archive, ZipFile(folder / "bomb.pt", "w", ZIP_DEFLATED) as bomb:
        for member in archive.namelist():
            bomb.writestr(member, bytes(10**7) if "/data/" in member else archive.read(member))
    os.mkfifo(folder / "pipe.pt")
    (folder / "endless.pt").symlink_to("/dev/zero")
    dense, damaged = "should be a dense tensor of real numbers", "not a file of tensors, or it is damaged"
    return {
        **dict.fromkeys(("sparse", "meta", "complex", "repeated", "list", "text", "number"), dense),
        "amplitudes": r"'lim' of .* should have 2 rows, got shape \(3,\)",
        "scalar": r"'lim' of .* should have 2 rows, got shape \(\)",
        "indices": r"'indices' of .* should have 2 rows, got shape \(0,\)",
        "cases": r"\(2, 3, 8, 8\), got \(1, 1, 8, 8\)",
        "grid": r"\(2, 3, 8, 8\), got \(2, 1, 8, 4\)",
        "axes": r"\(2, 3, 8, 8\), got \(\)",
        "keys": r"got 1, \(2, 3\)",
        "many": "got key 0, key 1",
        "texts": "holds more than tensors",
        "old": damaged,
        "code": damaged,
        "pickle": damaged,
        "bomb": "is compressed",
        "pipe": "it is a pipe",
        "endless": "it is a device",
        "": "it is a folder",
    }


class Ran:
    """Leaves a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.path,)


def test_a_file_that_nobody_should_trust_is_refused_in_one_line_and_runs_nothing(tmp_path: Path) -> None:
    for name, reason in hostile_files(tmp_path).items():
        path = tmp_path / f"{name}.pt" if name else tmp_path
        with pytest.raises(DisolError, match=reason) as raised:
            read_released(path, "poisson")
        assert "\n" not in str(raised.value)
        assert str(path) in str(raised.value)
        assert len(str(raised.value)) < 300 + len(str(path))
    assert not (tmp_path / "ran").exists()


def test_tensors_of_short_floats_and_of_parameters_are_read(tmp_path: Path) -> None:
    inputs = torch.nn.Parameter(released_inputs("poisson"))
    torch.save({"inp": inputs, "out": torch.ones(3, 1, 12, 12).bfloat16()}, tmp_path / "short.pt")
    arrays = read_released(tmp_path / "short.pt", "poisson")
    assert np.array_equal(arrays["source"], inputs[:, 2].detach())
    assert arrays["pattern"].dtype == np.float32
    assert (arrays["pattern"] == 1).all()


def test_a_mutant_is_read_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "mutant.pt"
    torch.save({"inp": released_inputs("poisson", 2, 8), "out": torch.rand(2, 1, 8, 8), "lim": torch.rand(2)}, path)
    content = path.read_bytes()
    refused = 0
    for number in range(200):
        rng, changed = random.Random(number), bytearray(content)
        for _ in range(rng.choice((1, 3, 30))):
            changed[rng.randrange(len(changed))] = rng.choice((0, 1, 255, rng.randrange(256)))
        path.write_bytes(changed[: rng.randrange(len(changed))] if number % 20 == 0 else changed)
        try:
            read_released(path, "poisson")
        except DisolError:
            refused += 1
    assert 20 < refused < 200


def test_an_archive_holds_what_the_file_holds(heat_file: Path, tmp_path: Path) -> None:
    export_npz(heat_file, tmp_path / "cases.npz", split="validation")
    store = open_store(heat_file)
    with np.load(tmp_path / "cases.npz") as archive:
        expected = store.read(store.positions("validation"))
        assert set(archive) == {*expected, "settings"}
        for name, values in expected.items():
            assert np.array_equal(archive[name], values)
        assert json.loads(str(archive["settings"]))["problem"] == "heat"


def test_an_export_that_fails_leaves_nothing_behind(
    heat_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(ValueError, match=r"called NAME\.npz"):
        export_npz(heat_file, tmp_path / "cases.zip")
    monkeypatch.setattr("disol.data.export._write_member", full)
    with pytest.raises(ValueError, match="No space left"):
        export_npz(heat_file, tmp_path / "cases.npz")
    assert not list(tmp_path.iterdir())


def test_an_archive_is_written_in_less_memory_than_it_takes(
    heat_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(heat_file)
    repeated = {name: np.repeat(values, 40, axis=0) for name, values in store.read().items()}
    with create_store(tmp_path / "many.h5", replace(store.settings, num_cases=200)) as writer:
        writer.write_chunk(0, repeated)
    monkeypatch.setattr("disol.data.export.PIECE_BYTES", 2**19)
    tracemalloc.start()
    export_npz(tmp_path / "many.h5", tmp_path / "many.npz", names=("pattern", "domain", "times"))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < repeated["pattern"].nbytes / 4
    with np.load(tmp_path / "many.npz") as archive:
        assert list(archive) == ["settings", "pattern", "domain", "times"]
        assert np.array_equal(archive["pattern"], repeated["pattern"])
        assert np.array_equal(archive["domain"], repeated["domain"])
