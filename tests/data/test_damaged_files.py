"""A file from anywhere reads as what was written, or is refused in one line; nothing it says is believed first."""

import os
import random
import shutil
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from disol.data import create_store, describe, open_store
from disol.data.hdf5 import read_structure
from disol.data.layout import Arrays, compute_checksums
from disol.data.recipe import StoreSettings, read_recipe
from disol.errors import DisolError
from disol.problems.table import PROBLEMS

Change = Callable[[h5py.File], object]
MOST_BYTES = 2**24  # of memory for a file of 200 kB, however it was changed
MUTANTS = 100


def changed_by(change: Change, source: Path, folder: Path) -> Path:
    path = Path(shutil.copy(source, folder / "changed.h5"))
    with h5py.File(path, "r+") as file:
        change(file)
    return path


def forget_checksums(file: h5py.File) -> None:
    """Make a file of format version 1, as disol wrote before there were checksums."""
    del file["crc32"], file.attrs["crc32"]
    file.attrs.modify("version", 1)


def read_all(path: Path) -> tuple[StoreSettings, Arrays] | str:
    """Return what a file holds or why it is refused: in one line, which names it; at little cost, either way."""
    tracemalloc.start()
    try:
        describe(path)
        store = open_store(path)
        return store.settings, store.read()
    except DisolError as error:
        reason = str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MOST_BYTES
    assert str(path) in reason
    assert "\n" not in reason
    assert len(reason) < 500 + len(str(path))
    return reason


def read_refused(path: Path) -> str:
    """Return why a file is refused."""
    reason = read_all(path)
    assert isinstance(reason, str)
    return reason


@pytest.mark.parametrize("problem", PROBLEMS)
def test_the_structure_is_read_as_the_hdf5_library_reads_it(problem: str, tmp_path: Path) -> None:
    path = tmp_path / "cases.h5"
    create_store(path, read_recipe(problem, 2**63 + 1, "shapes", "paper", 20).settings(3)).close()
    attributes, datasets = read_structure(path, memoryview(path.read_bytes()))
    with h5py.File(path) as file:
        expected = {
            name: tuple(value.tolist()) if isinstance(value, np.ndarray) else value
            for name, value in file.attrs.items()
        }
        names: list[str] = []
        file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
        assert attributes == expected
        assert sorted(datasets) == sorted(names)
        for name, found in datasets.items():
            dataset = file[name]
            assert (found.dtype, found.shape) == (dataset.dtype.str, dataset.shape)
            assert found.offset == dataset.id.get_offset()
            assert found.attributes == dict(dataset.attrs)


def test_a_structure_that_the_hdf5_library_has_changed_is_still_read(poisson_file: Path, tmp_path: Path) -> None:
    def rearrange(file: h5py.File) -> None:
        for number in range(40):  # enough names for a second level of the list of a group
            file[f"further/{number}"] = np.zeros(3, np.uint8)
            file.attrs[f"note {number}"] = "ü" * number
        del file.attrs["note 3"], file["further/7"]

    path = changed_by(rearrange, poisson_file, tmp_path)
    attributes, datasets = read_structure(path, memoryview(path.read_bytes()))
    assert attributes["note 39"] == "ü" * 39
    assert {f"further/{number}" for number in range(40) if number != 7} < datasets.keys()
    assert "has the attribute 'note 0', which generate does not write" in read_refused(path)


@pytest.mark.parametrize("problem", ["poisson", "elasticity", "heat"])
def test_a_file_without_checksums_of_an_earlier_version_is_read(
    problem: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    source = request.getfixturevalue(f"{problem}_file")
    old, new = open_store(changed_by(forget_checksums, source, tmp_path)), open_store(source)
    assert not any(name.startswith("crc32/") for name in old.columns)
    assert old.settings == new.settings
    expected = new.read()
    for name, values in old.read().items():
        assert np.array_equal(values, expected[name])
    assert old.names.keys() == new.names.keys() == expected.keys()


def test_checksums_are_those_of_the_stored_bytes(heat_file: Path) -> None:
    with h5py.File(heat_file) as file:
        assert zlib.crc32(file["channels/domain"][3].tobytes()) == file["crc32/channels/domain"][3]
        assert zlib.crc32(file["pattern"][2, 7].tobytes()) == file["crc32/pattern"][2, 7]
        assert zlib.crc32(file["amplitude"][4].tobytes()) == file["crc32/amplitude"][4]


def test_every_flipped_bit_of_a_case_is_noticed_and_only_where_it_is_read(heat_file: Path, tmp_path: Path) -> None:
    store, rng = open_store(heat_file), np.random.default_rng(0)
    whole = heat_file.read_bytes()
    for name, column in store.columns.items():
        if name == "times":
            continue
        case, byte, bit = rng.integers(5), rng.integers(column.row_bytes), rng.integers(8)
        content = bytearray(whole)
        content[column.offset + case * column.row_bytes + byte] ^= 1 << bit
        path = tmp_path / "flipped.h5"
        path.write_bytes(content)
        if name == "done":
            assert "holds" in read_refused(path)
            continue
        damaged = name.removeprefix("crc32/")
        assert f"{damaged!r} of case {case} is not what was written" in read_refused(path)
        key, others = damaged.removeprefix("channels/"), np.delete(np.arange(5), case)
        assert np.array_equal(open_store(path).read(others, key)[key], store.read(others, key)[key])
        rest = [other for other in store.names if other != key]
        assert open_store(path).read(slice(None), *rest).keys() == {*rest}


def test_only_the_frames_that_are_read_are_verified(heat_file: Path, tmp_path: Path) -> None:
    pattern = open_store(heat_file).columns["pattern"]
    content = bytearray(heat_file.read_bytes())
    content[pattern.end - 1] ^= 1  # in the last frame of the last case
    (tmp_path / "flipped.h5").write_bytes(content)
    store = open_store(tmp_path / "flipped.h5")
    assert store.read(slice(None), "pattern", frames=slice(24))["pattern"].shape == (5, 24, 1, 20, 20)
    with pytest.raises(DisolError, match=r"'pattern' of case 4 is not what was written"):
        store.read(slice(None), "pattern", frames=slice(20, None))


def replaced(name: str, **properties: object) -> Change:
    """Make a dataset anew, with other properties."""

    def change(file: h5py.File) -> None:
        values = file[name][...]
        del file[name]
        content = {"dtype": values.dtype} if "shape" in properties else {"data": values}
        file.create_dataset(name, **{**content, **properties})

    return change


def linked(name: str, target: Callable[[h5py.File], object]) -> Change:
    """Put something else in the place of a dataset."""

    def change(file: h5py.File) -> None:
        del file[name]
        file[name] = target(file)

    return change


def virtual(file: h5py.File) -> None:
    del file["split"]
    file.create_virtual_dataset("split", h5py.VirtualLayout((5,), "u1"))


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("num_cases", 4 * 10**8, "should hold 'channels/domain' as |u1 (400000000, 20, 3), got |u1 (5, 20, 3)"),
        ("num_cases", 2**62, "should hold 'channels/domain'"),
        ("num_cases", 0, "num_cases must be at least 1, got 0"),
        ("num_cases", -1, "num_cases must not be negative, got -1"),
        ("num_cases", "five", "num_cases must be of type int, got 'five'"),
        ("num_cases", True, "num_cases must be a whole number, got True"),
        ("num_cases", 5.0, "'num_cases' is no whole number, truth value or text"),
        ("num_cases", np.int64([5]), "'num_cases' is no whole number, truth value or text"),
        ("num_cases", np.int32(5), "'num_cases' is of another type"),
        ("resolution", 10**9, "should hold 'channels/domain'"),
        ("seed", 4, "its attributes do not match their checksum"),
        ("seed", np.arange(6000), "'seed' is no whole number, truth value or text"),
        ("crc32", "x", "its attributes do not match their checksum"),
        ("problem", "two\nlines", "problem must be text of one line, got 'two\\nlines'"),
        ("problem", np.bytes_(b"poisson"), "'problem' is of another type"),
        ("equation", "a\x1b[2J", "equation must be text of one line"),
        ("equation", "x" * 2**20, "its structure takes more than 1,048,576 bytes"),
        ("equation", ["x" * 2**17] * 9, "its structure takes more than 1,048,576 bytes"),
        ("fixed_outlines", 1, "fixed_outlines must be of type bool, got 1"),
        ("channels", "domain", "channels must be of type tuple, got 'domain'"),
        ("channels", ["source", "initial"], "channels must have a domain, got source, initial"),
        ("channels", ["domain", "domain"], "channels must be 1 to 256 different names"),
        ("fields", [f"u{number}" for number in range(3000)], "fields must be 1 to 256 different names"),
        ("fields", [["u"]], "'fields' is no whole number, truth value or text"),
        ("parameters", "[" * 10**5, "parameters must be numbers by name in JSON, got '[[[["),
        ("parameters", "[1]", "parameters must be numbers by name in JSON, got '[1]'"),
        ("parameters", '{"two\\nlines": 1}', "parameters must be numbers by name in JSON"),
        ("further", 1, "has the attribute 'further', which generate does not write"),
        ("further", h5py.Empty("f8"), "an array has no shape"),
        ("version", 10**6, "format version 1000000, this disol reads 1 and 2"),
        ("version", "2", "format version '2', this disol reads 1 and 2"),
        ("version", 1, "has the attribute 'crc32', which generate does not write"),
    ],
)
def test_an_attribute_is_checked_before_it_is_believed(
    name: str, value: object, complaint: str, heat_file: Path, tmp_path: Path
) -> None:
    path = changed_by(lambda file: file.attrs.__setitem__(name, value), heat_file, tmp_path)
    assert complaint in read_refused(path)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda file: file.attrs.__delitem__("crc32"), "lacks the attribute 'crc32'"),
        (lambda file: file.__delitem__("crc32"), "lacks the dataset 'crc32/channels/domain'"),
        (lambda file: file.__delitem__("crc32/pattern"), "lacks the dataset 'crc32/pattern'"),
        (lambda file: file.create_group("a/b/c/d"), "it has groups in groups in groups"),
        (lambda file: file.create_dataset("more", data=np.zeros(3)), "has the dataset 'more', which generate does not"),
        (lambda file: file["split"].__setitem__(1, 7), "'split' of case 1 is not what was written"),
        (lambda file: file["shift"].__setitem__(4, 200), "'shift' of case 4 is not what was written"),
        (lambda file: file["index"].__setitem__(0, -5), "'index' of case 0 is not what was written"),
        (lambda file: file["outline"].__setitem__(2, 2**62), "'outline' of case 2 is not what was written"),
        (lambda file: file["done"].__setitem__(3, 2), "'done' holds other codes than 0 and 1"),
        (lambda file: file["times"].__setitem__(24, 1e15), "times must be up to 10000 seconds in ascending order"),
        (lambda file: file["times"].__setitem__(0, np.nan), "times must be up to 10000 seconds in ascending order"),
        (lambda file: file["times"].__setitem__(0, 1.0), "its attributes do not match their checksum"),
        (replaced("times", shape=(10**9,), chunks=(10**6,), compression=9), "it has filters, as for compression"),
        (replaced("times", shape=(10**15,), chunks=(10**6,)), "'times' is in pieces, compressed or elsewhere"),
        (replaced("times", shape=(10**4 + 1,)), "should hold at most 10000 times, got shape (10001,)"),
        (replaced("times", shape=()), "should hold at most 10000 times, got shape ()"),
        (replaced("pattern", compression="gzip"), "it has filters, as for compression"),
        (replaced("split", fletcher32=True), "it has filters, as for compression"),
        (replaced("split", maxshape=(None,)), "'split' is in pieces, compressed or elsewhere"),
        (replaced("split", shape=(5,), dtype="u1"), "is truncated within 'split'"),  # without a place, as it is empty
        (replaced("split", shape=(5,), dtype="u1", external="/etc/passwd"), "it has data in other files"),
        (replaced("split", dtype=">u2"), "'split' is of another type"),
        (replaced("split", dtype="u8"), "should hold 'split' as |u1 (5,), got <u8 (5,)"),
        (replaced("split", shape=(5, 10**12), dtype="u1"), "should hold 'split' as |u1 (5,)"),
        (virtual, "'split' is in pieces, compressed or elsewhere"),
        (linked("split", lambda file: "text"), "should hold 'split' as |u1 (5,), got text ()"),
        (linked("split", lambda file: h5py.SoftLink("/shift")), "'split' is a link to elsewhere"),
        (linked("split", lambda file: h5py.ExternalLink("/etc/passwd", "/split")), "it has links of another kind"),
        (linked("split", lambda file: file["shift"]), "its datasets overlap"),
        (linked("split", lambda file: file["channels"]), "lacks the dataset 'split'"),
        (linked("split", lambda file: file["/"]), "it has groups in groups in groups"),
        (linked("split", lambda file: np.dtype("u1")), "'split' is neither a dataset nor a group"),
    ],
)
def test_a_dataset_is_checked_before_it_is_believed(
    change: Change, complaint: str, heat_file: Path, tmp_path: Path
) -> None:
    assert complaint in read_refused(changed_by(change, heat_file, tmp_path))


@pytest.mark.parametrize("name", ["pattern", "amplitude", "channels/source"])
def test_numbers_that_are_not_finite_are_refused_even_with_their_checksum(
    name: str, heat_file: Path, tmp_path: Path
) -> None:
    def spoil(file: h5py.File) -> None:
        file[name][2] = np.nan
        file[f"crc32/{name}"][...] = compute_checksums(file[name][...], file[f"crc32/{name}"].ndim)

    assert f"{name!r} holds NaN or infinite values" in read_refused(changed_by(spoil, heat_file, tmp_path))


def test_what_is_no_regular_file_is_refused_unread(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.h5")
    (tmp_path / "endless.h5").symlink_to("/dev/zero")
    for path, kind in [("pipe.h5", "a pipe"), ("endless.h5", "a device"), ("", "a folder")]:
        assert f"it is {kind}, not a regular file" in read_refused(tmp_path / path)
    with pytest.raises(DisolError, match=r"There is no file x{300}\. Check the path"):
        open_store("x" * 300)


def test_a_file_that_shrinks_while_it_is_open_is_refused(poisson_file: Path, tmp_path: Path) -> None:
    path = Path(shutil.copy(poisson_file, tmp_path))
    store = open_store(path)
    os.truncate(path, 5000)
    with pytest.raises(DisolError, match="was truncated while it was in use"):
        store.read()


def mutate_bytes(content: bytes, structure: np.ndarray, rng: random.Random) -> bytes:
    """Flip, overwrite, copy and cut at random, mostly where the structure is."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5, 20))):
        place = int(structure[rng.randrange(len(structure))]) if rng.random() < 0.8 else rng.randrange(len(changed))
        size = rng.choice((1, 2, 4, 8, 40))
        numbers = (0, 1, 2 ** (8 * size) - 1, 2 ** (8 * size - 1), len(content), rng.randrange(len(content)))
        written = [
            bytes([changed[place] ^ 1 << rng.randrange(8)]),
            (rng.choice(numbers) % 2 ** (8 * size)).to_bytes(size, "little"),
            rng.randbytes(size),
            content[(start := rng.randrange(len(content) - size)) : start + size],
        ][rng.randrange(4)]
        changed[place : place + len(written)] = written[: len(changed) - place]
    return bytes(changed[: rng.randrange(len(changed))] if rng.random() < 0.02 else changed)


def mutate_items(path: Path, rng: random.Random) -> None:
    """Let the HDF5 library remove and replace attributes and datasets at random."""
    values = (
        0,
        -1,
        7,
        2**40,
        1.5,
        True,
        "",
        "x" * 99,
        "ü\n",
        [],
        ["domain"],
        [1, 2],
        np.zeros((2, 2)),
        h5py.Empty("f4"),
    )
    kinds = ("u1", "<u4", "<i8", "<f4", "<f8", ">f8", "S5", h5py.string_dtype())
    with h5py.File(path, "r+") as file:
        names: list[str] = []
        file.visit(names.append)
        for _ in range(rng.choice((1, 1, 2))):
            name = rng.choice(names)
            item = file.get(name)
            if item is None or rng.random() < 0.4:
                holder = file if rng.random() < 0.7 or item is None else item
                attribute = rng.choice([*holder.attrs, "note"])
                holder.attrs[attribute] = rng.choice(values)
                if rng.random() < 0.2:
                    del holder.attrs[attribute]
            elif isinstance(item, h5py.Dataset) and item.size and rng.random() < 0.4:
                place = tuple(rng.randrange(length) for length in item.shape)
                item[place] = rng.choice((0, 1, 2, 255)) if item.dtype.kind == "u" else rng.choice((0, -1, np.pi, 1e15))
            else:
                shape = getattr(item, "shape", (5,))
                shape = rng.choice((shape, shape[::-1], (*shape, 1), (10**9, *shape[1:]), ()))
                del file[name]
                if rng.random() < 0.8:
                    extra = {"chunks": True, "compression": 4} if shape and rng.random() < 0.3 else {}
                    file.create_dataset(name, shape, rng.choice(kinds), **extra)
                elif rng.random() < 0.5:
                    file[name] = rng.choice((h5py.SoftLink("/done"), h5py.ExternalLink(path, "/done"), file["/"]))


@pytest.mark.parametrize("with_checksums", [True, False])
@pytest.mark.parametrize("how", ["bytes", "items"])
def test_a_mutant_reads_as_what_was_written_or_is_refused(
    how: str, with_checksums: bool, heat_file: Path, tmp_path: Path
) -> None:
    source = heat_file if with_checksums else changed_by(forget_checksums, heat_file, tmp_path)
    content, store, path = source.read_bytes(), open_store(source), tmp_path / "mutant.h5"
    expected, is_structure = store.read(), np.frombuffer(content, np.uint8) != 0
    for column in store.columns.values():
        is_structure[column.offset : column.end] = False
    structure, num_refused = np.flatnonzero(is_structure), 0
    for number in range(MUTANTS):
        rng = random.Random(number)
        path.write_bytes(mutate_bytes(content, structure, rng) if how == "bytes" else content)
        if how == "items":
            mutate_items(path, rng)
        found = read_all(path)
        num_refused += isinstance(found, str)
        if with_checksums and not isinstance(found, str):
            settings, arrays = found
            assert settings == store.settings
            assert all(np.array_equal(arrays[name], values) for name, values in expected.items()), f"mutant {number}"
    assert MUTANTS // 10 < num_refused < MUTANTS
