"""A file of cases holds what was written, and says what is wrong with it."""

import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest

from disol._files import temporary_beside
from disol.data import create_store, generate, open_store, resume_store
from disol.data.backends import solve_cases
from disol.data.layout import STRUCTURE_BYTES, Column, count_case_bytes
from disol.data.packing import get_encodings
from disol.data.recipe import Recipe, StoreSettings, read_recipe
from disol.errors import DisolError
from disol.problems.table import PROBLEMS

POISSON = read_recipe("poisson", 3, None, "paper", 20)


def small_settings(num_cases: int = 4, recipe: Recipe = POISSON) -> StoreSettings:
    return recipe.settings(num_cases)


@pytest.mark.parametrize(
    ("problem", "conventions", "shift"),
    [
        ("poisson", "published", "all"),
        ("advection-diffusion-high", "paper", None),
        ("elasticity", "published", "shapes"),
        ("elasticity", "paper", "boundary"),
        ("heat", "paper", {"topology": 0.3, "source": None}),
    ],
)
def test_what_was_written_is_read_bit_for_bit(problem: str, conventions: str, shift: object, tmp_path: Path) -> None:
    recipe = read_recipe(problem, 7, shift, conventions, 20)
    cases = solve_cases(recipe, range(4))
    with create_store(tmp_path / "cases.h5", recipe.settings(4)) as writer:
        writer.write_chunk(0, {name: values[:3] for name, values in cases.items()})
        writer.write_chunk(3, {name: values[3:] for name, values in cases.items()})
    read = open_store(tmp_path / "cases.h5").read()
    for name, values in cases.items():
        assert read[name].dtype == values.dtype
        assert np.array_equal(read[name], values), name
    assert set(read) - set(cases) - {"times"} == {"index", "outline", "shift", "split"}


def test_settings_come_back(elasticity_file: Path, heat_file: Path) -> None:
    recipe = read_recipe("elasticity", 3, None, "published", 20)
    assert open_store(elasticity_file).settings == recipe.settings(6)
    heat = open_store(heat_file).settings
    assert heat.times == tuple(float(time) for time in range(2, 51, 2))
    assert "time" in heat.channels
    assert "time" not in open_store(heat_file).names


def test_h5py_alone_reads_a_file_as_documented(poisson_file: Path) -> None:
    store = open_store(poisson_file)
    with h5py.File(poisson_file) as file:
        domain = np.unpackbits(file["channels/domain"][:], axis=-1, count=file.attrs["resolution"])
        assert np.array_equal(domain.astype(bool), store.read(slice(None), "domain")["domain"])
        assert np.array_equal(file["pattern"][:], store.read(slice(None), "pattern")["pattern"])
        assert file["done"][:].all()
        assert file.attrs["problem"] == "poisson"


@pytest.mark.parametrize("cases", [1, 2, 9, 10, 64])
def test_every_outline_is_on_one_side_of_the_split(cases: int) -> None:
    for shift in (None, "shapes", "shape:star"):
        settings = read_recipe("poisson", 0, shift, "paper", 20).settings(cases)
        numbers = settings.number_cases(np.arange(cases))
        train, validation = (numbers["outline"][numbers["split"] == code] for code in (0, 1))
        assert not set(train) & set(validation)
        assert len(train) + len(validation) == cases
        if shift is None:
            assert len(train) == int(0.8 * cases)


def test_splits_can_be_read_apart(poisson_file: Path) -> None:
    store = open_store(poisson_file)
    assert store.positions("train").tolist() == list(range(8))
    assert store.positions("validation").tolist() == [8, 9]
    assert store.positions().tolist() == list(range(10))
    with pytest.raises(ValueError, match=r"Unknown split 'test'. Use one of"):
        store.positions("test")


def test_shapes_take_turns() -> None:
    settings = read_recipe("poisson", 0, "shapes", "paper", 20).settings(9)
    assert settings.number_cases(np.arange(9))["shift"].tolist() == [0, 1, 2, 3, 4, 5, 6, 0, 1]
    assert settings.shifts[0] == "shape:arrow+hole"


def test_a_file_of_an_unknown_problem_is_read_by_what_it_says(elasticity_file: Path, tmp_path: Path) -> None:
    settings = replace(open_store(elasticity_file).settings, problem="of-my-own")
    with pytest.raises(ValueError, match="Unknown problem 'of-my-own'"):
        create_store(tmp_path / "own.h5", settings)
    with pytest.raises(
        ValueError, match=r"poisson has the channels domain, .* the settings of the file have domain, f"
    ):
        create_store(tmp_path / "own.h5", settings, "poisson")
    with create_store(tmp_path / "own.h5", settings, "elasticity") as writer:
        writer.write_chunk(0, open_store(elasticity_file).read())
    own, known = (open_store(path).read() for path in (tmp_path / "own.h5", elasticity_file))
    assert own.keys() == known.keys()
    assert all(own[name].dtype == values.dtype and np.array_equal(own[name], values) for name, values in known.items())


def test_only_finished_cases_are_read(tmp_path: Path) -> None:
    with create_store(tmp_path / "cases.h5", small_settings()) as writer:
        writer.write_chunk(0, solve_cases(POISSON, range(3)))
        assert writer.store.num_done == 3
        assert len(writer.store.read()["pattern"]) == 3
    with pytest.raises(ValueError, match=r"holds 3 of its 4 cases\. Resume"):
        open_store(tmp_path / "cases.h5")
    assert len(open_store(tmp_path / "cases.h5", unfinished=True).read()["domain"]) == 3


def test_cases_are_written_in_order_whole_and_finite(tmp_path: Path) -> None:
    cases = solve_cases(POISSON, range(2))
    with create_store(tmp_path / "cases.h5", small_settings()) as writer:
        with pytest.raises(ValueError, match="next case to write is 0, got 1"):
            writer.write_chunk(1, cases)
        with pytest.raises(ValueError, match="needs 'source'"):
            writer.write_chunk(0, {name: cases[name] for name in cases if name != "source"})
        for name in ("pattern", "amplitude", "source"):
            with pytest.raises(ValueError, match=f"{name} of a case holds NaN or infinite"):
                writer.write_chunk(0, {**cases, name: cases[name] * np.nan})
        with pytest.raises(ValueError, match="stored shape"):
            writer.write_chunk(0, {**cases, "pattern": cases["pattern"][:, :, 1:]})
        with pytest.raises(ValueError, match="room for 4 more cases, got 6"):
            writer.write_chunk(0, {name: np.concatenate([values] * 3) for name, values in cases.items()})
        assert writer.store.num_done == 0


def test_an_unknown_array_is_an_error_that_lists_the_names(poisson_file: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no 'velocity'. It holds domain, dirichlet, source"):
        open_store(poisson_file).read(slice(None), "velocity")


def test_a_read_looks_once_which_cases_are_done(poisson_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, mapped, view = open_store(poisson_file), [], Column.view
    monkeypatch.setattr(Column, "view", lambda column, content: mapped.append(column) or view(column, content))
    store.read(slice(0, 1), "domain", "source", "pattern")
    read = ("channels/domain", "channels/source", "pattern")
    assert sorted(map(id, mapped)) == sorted(
        id(store.columns[name]) for name in ("done", *read, *(f"crc32/{name}" for name in read))
    )


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.9, 0.999])
def test_a_truncated_file_says_so(share: float, poisson_file: Path, tmp_path: Path) -> None:
    whole = poisson_file.read_bytes()
    broken = tmp_path / "broken.h5"
    broken.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match=r"truncated or damaged|not an HDF5 file"):
        open_store(broken)


def test_a_file_that_h5py_holds_open_in_the_same_process_is_not_taken_for_damaged(poisson_file: Path) -> None:
    with h5py.File(poisson_file, "r"):
        assert open_store(poisson_file).num_done == 10


def test_other_files_are_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "notes.h5").write_text("These are not cases.")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["values"] = [1, 2, 3]
    for name, message in [("notes.h5", "not an HDF5"), ("other.h5", "not one of disol"), ("missing.h5", "no file")]:
        with pytest.raises(ValueError, match=message) as raised:
            open_store(tmp_path / name)
        assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: file.attrs.modify("version", 99), "format version 99, this disol reads 1"),
        (lambda file: file.attrs.__delitem__("fields"), "lacks the attribute 'fields'"),
        (lambda file: file.__delitem__("amplitude"), "lacks the dataset 'amplitude'"),
        (lambda file: file.attrs.modify("resolution", 24), "should hold 'channels/domain' as"),
        (lambda file: file.__delitem__("channels/source"), "lacks the dataset 'channels/source'"),
        (lambda file: file["channels/source"].attrs.modify("encoding", "zip"), "should keep 'channels/source' as"),
    ],
)
def test_a_changed_file_is_refused(change: object, message: str, poisson_file: Path, tmp_path: Path) -> None:
    changed = tmp_path / "changed.h5"
    changed.write_bytes(poisson_file.read_bytes())
    with h5py.File(changed, "r+") as file:
        change(file)
    with pytest.raises(ValueError, match=message):
        open_store(changed)


@pytest.mark.parametrize("locking", ["TRUE", "FALSE", ""])
def test_a_second_writer_is_refused_and_a_reader_of_the_finished_cases_is_not(locking: str, tmp_path: Path) -> None:
    path = tmp_path / "cases.h5"
    second = (
        "import sys; from disol.data import open_store, resume_store\n"
        "store = open_store(sys.argv[1], unfinished=True); print(store.num_done)\n"
        "try: resume_store(sys.argv[1], store.settings)\n"
        "except ValueError as error: print(error)\n"
    )
    environment = {**os.environ, "HDF5_USE_FILE_LOCKING": locking}
    if not locking:
        del environment["HDF5_USE_FILE_LOCKING"]
    command = [sys.executable, "-c", second, str(path)]
    with create_store(path, small_settings()):
        answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert "is in use by another process. Wait" in answer
    assert resume_store(path, small_settings()).store.num_done == 0


@pytest.mark.parametrize(
    ("setting", "value"), [("seed", 4), ("num_cases", 5), ("conventions", "published"), ("package_version", "0.0.1")]
)
def test_resuming_with_other_settings_names_the_setting_and_both_values(
    setting: str, value: object, tmp_path: Path
) -> None:
    settings = small_settings()
    create_store(tmp_path / "cases.h5", settings).close()
    begun = getattr(settings, setting)
    with pytest.raises(ValueError, match=f"begun with {setting}={begun!r}, now asked for {value!r}. Ask for"):
        resume_store(tmp_path / "cases.h5", replace(settings, **{setting: value}))


def test_an_existing_file_is_not_overwritten(poisson_file: Path) -> None:
    before = poisson_file.read_bytes()
    with pytest.raises(ValueError, match="exists already"):
        create_store(poisson_file, small_settings())
    assert poisson_file.read_bytes() == before


def test_a_folder_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"file.cases\.h5 .*folder") as raised:
        create_store(tmp_path / "file" / "cases.h5", small_settings())
    assert "\n" not in str(raised.value)


def test_a_folder_that_cannot_be_written_is_one_clear_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", refuse)
    with pytest.raises(ValueError, match=r"cannot be written: Permission denied\. Choose a folder"):
        create_store(tmp_path / "cases.h5", small_settings())


def test_a_disk_without_room_is_noticed_before_the_first_case(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10_000))
        with pytest.raises(ValueError, match=r"needs 100\.1 kB, but 10\.0 kB are free\. Free space"):
            create_store(tmp_path / "cases.h5", small_settings(20))
    monkeypatch.setattr("os.posix_fallocate", full)
    with pytest.raises(ValueError, match="no room on the disk"):
        create_store(tmp_path / "cases.h5", small_settings())
    assert not list(tmp_path.iterdir())


def test_more_cases_than_memory_could_number_are_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cases\.h5 needs \d+\.\d PB, but .* are free.*ask for fewer cases"):
        generate("poisson", 10**12, tmp_path / "cases.h5", workers=0)
    assert not list(tmp_path.iterdir())


def limited_to(size: int) -> tuple[int, int]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    return before


def test_a_limit_on_the_size_of_files_is_noticed_before_the_first_case(tmp_path: Path) -> None:
    before = limited_to(8192)
    try:
        with pytest.raises(ValueError, match="no room on the disk or over a quota"):
            create_store(tmp_path / "cases.h5", small_settings(50))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("resume", [True, False])
def test_a_generation_removes_what_killed_ones_have_left_but_nothing_of_one_that_lives(
    resume: bool, tmp_path: Path
) -> None:
    settings, path = small_settings(), tmp_path / "cases.h5"
    if resume:
        create_store(path, settings).close()
    dead, other = tmp_path / ".cases-unfinished-abcdefgh.h5", tmp_path / ".others-unfinished-abcdefgh.h5"
    for left in (dead, other):
        left.touch()
    with temporary_beside(path) as alive:
        dead.touch()
        (resume_store if resume else create_store)(path, settings).close()
        assert sorted(tmp_path.iterdir()) == sorted([path, other, alive])


def test_a_file_takes_no_more_room_than_was_asked_for(tmp_path: Path) -> None:
    for name, problem in PROBLEMS.items():
        path, recipe = tmp_path / f"{name}.h5", read_recipe(problem, 2**64 - 1, "shapes", "paper", 16)
        create_store(path, recipe.settings(100)).close()
        cases = 100 * count_case_bytes(recipe.settings(100), get_encodings(problem))
        assert path.stat().st_size - cases < STRUCTURE_BYTES


@pytest.mark.parametrize("seed", [2**64, 10**30])
def test_a_seed_that_a_file_cannot_keep_is_refused(seed: int, tmp_path: Path) -> None:
    with pytest.raises(DisolError, match=r"seed must be below 2\*\*64"):
        generate("poisson", 1, tmp_path / "cases.h5", seed=seed, resolution=16, workers=0)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("resume", [True, False])
def test_a_path_that_cannot_be_a_file_is_one_clear_line(resume: bool, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    before = sorted(tmp_path.iterdir())
    for path in (tmp_path / f"{'x' * 300}.h5", tmp_path / "pipe", tmp_path / "dangling", Path("/dev/full"), tmp_path):
        with pytest.raises(DisolError, match=r"too long|exists already|not a regular file") as raised:
            generate("poisson", 1, path, resolution=16, workers=0, resume=resume)
        assert "\n" not in str(raised.value)
    assert sorted(tmp_path.iterdir()) == before


def test_a_write_that_fails_leaves_a_file_that_can_be_resumed(tmp_path: Path) -> None:
    path, cases = tmp_path / "cases.h5", solve_cases(POISSON, range(4))
    with create_store(path, small_settings()) as writer:
        writer.write_chunk(0, {name: values[:2] for name, values in cases.items()})
        rest = {name: values[2:] for name, values in cases.items()}
        before = limited_to(writer.store.columns["pattern"].offset + 5000)
        try:
            with pytest.raises(ValueError, match="Free space and resume"):
                writer.write_chunk(2, rest)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    with resume_store(path, small_settings()) as writer:
        assert writer.store.num_done == 2
        writer.write_chunk(2, rest)
    assert np.array_equal(open_store(path).read()["pattern"], cases["pattern"])


def test_no_cases_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="num_cases must be at least 1, got 0"):
        create_store(tmp_path / "cases.h5", small_settings(0))


@pytest.mark.parametrize("name", ["cases.txt", "cases.npz", "cases"])
def test_a_new_file_has_the_ending_of_its_format(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=rf"must end in \.h5 or \.hdf5, got '{name}'"):
        generate("poisson", 1, tmp_path / name, resolution=16, workers=0)
    assert not any(tmp_path.iterdir())
    generate("poisson", 1, tmp_path / "cases.HDF5", resolution=16, workers=0)
    (tmp_path / "cases.HDF5").rename(tmp_path / name)  # which is read all the same
    assert len(open_store(tmp_path / name).read()["domain"]) == 1
