"""Cases of a user's own are stored as drawn ones are, and trained on."""

from types import SimpleNamespace

import numpy as np
import pytest

import disol
from disol.data import CaseDataset, describe, open_store, write_cases

SIDE = 20
SQUARE = np.zeros((SIDE, SIDE), bool)
SQUARE[3:17, 3:17] = True
HELD = SQUARE & (np.arange(SIDE) == 3)
TINY = {"width": 4, "depth": 2, "gated_skips": 1}


def with_hole(case: int) -> dict[str, np.ndarray]:
    """A square with a hole at another place in each case."""
    domain = SQUARE.copy()
    domain[6 + case % 4 : 9 + case % 4, 6 + case // 4 : 9 + case // 4] = False
    return {"domain": domain, "dirichlet": HELD, "source": np.linspace(0, 1, SIDE) * np.ones((SIDE, 1))}


@pytest.mark.parametrize("problem", ["poisson", "elasticity", "heat"])
def test_drawn_cases_given_as_ones_own_are_stored_as_generated_ones(problem, request, tmp_path):
    drawn = open_store(request.getfixturevalue(f"{problem}_file"))
    settings = drawn.settings
    cases = []
    for index in range(settings.num_cases):
        case = disol.draw(problem, settings.seed, index, resolution=SIDE, conventions=settings.conventions)
        cases.append({name: value for name, value in case.terms.items() if name != "times"})
    path = write_cases(problem, cases, tmp_path / "own.h5", conventions=settings.conventions)
    own, stored = open_store(path).read(), drawn.read()
    assert own.keys() == stored.keys()
    for name, values in stored.items():
        assert own[name] == pytest.approx(values, rel=1e-6, abs=1e-7), name


def test_the_worker_processes_change_nothing(tmp_path):
    cases = [with_hole(case) for case in range(3)]
    here, there = (write_cases("poisson", cases, tmp_path / f"{n}.h5", workers=n) for n in (0, 1))
    ours, theirs = (open_store(path).read() for path in (here, there))
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_a_file_of_ones_own_is_trained_on_and_told_from_another(tmp_path):
    from disol.evaluation import evaluate
    from disol.training import train

    parts = write_cases("poisson", [with_hole(case) for case in range(10)], tmp_path / "parts.h5")
    others = write_cases("poisson", [with_hole(case) for case in range(10, 15)], tmp_path / "others.h5")
    assert (len(CaseDataset(parts, "train")), len(CaseDataset(parts, "validation"))) == (8, 2)
    assert dict(describe(parts))["shift"] == "own:parts"
    settings = {"model_settings": TINY, "overrides": ["train.batch_size=4", "train.epochs=1"], "device": "cpu"}
    run = train("poisson", parts, tmp_path / "run", progress=False, **settings).path
    assert [len(evaluate(run, path).files[0].index) for path in (parts, others)] == [2, 5]


def test_files_of_ones_own_with_the_same_name_are_told_apart_by_their_cases(tmp_path):
    from disol.evaluation import evaluate
    from disol.training import train

    def write(folder, cases):
        (tmp_path / folder).mkdir()
        return write_cases("poisson", [with_hole(case) for case in cases], tmp_path / folder / "parts.h5")

    trained, as_many, more = write("train", range(5)), write("test", range(5, 10)), write("more", range(8))
    settings = {"model_settings": TINY, "overrides": ["train.batch_size=4", "train.epochs=1"], "device": "cpu"}
    report = train("poisson", [trained, as_many], tmp_path / "both", progress=False, **settings)
    assert report.notes == (), "a case of one file need not be that of the same number in the other"
    run = train("poisson", trained, tmp_path / "run", progress=False, **settings).path
    again = trained.rename(tmp_path / "renamed.h5")
    assert evaluate(run, again).splits == ("validation",)
    for path, cases in ((as_many, 5), (more, 8)):
        found = evaluate(run, path)
        assert (found.splits, len(found.files[0]), found.notes) == (("all",), cases, ())


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"diffusion": 2.0}, r"Case 1 failed: .*got 'diffusion'\. Leave it out"),
        ({"domain": np.ones((8, 8))}, "Case 1 failed: .*dirichlet"),
        ({"source": np.ones((2, SIDE, SIDE))}, "Case 1 failed: .*one by one, got a batch of 2"),
        ({name: values[2:-2, 2:-2] for name, values in with_hole(0).items()}, "here 20 x 20, got 16 x 16"),
    ],
)
def test_a_bad_case_is_named_and_leaves_no_file(tmp_path, change, complaint):
    with pytest.raises(ValueError, match=complaint):
        write_cases("poisson", [with_hole(0), with_hole(1) | change], tmp_path / "own.h5")
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_disk_names_the_file_that_was_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10))
    with pytest.raises(ValueError, match=rf"^{tmp_path}/own\.h5 needs"):
        write_cases("poisson", [with_hole(0)], tmp_path / "own.h5")
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_has_left_is_removed(tmp_path):
    for name in (".own-unfinished-abcdefgh.h5", ".own-unfinished-12345678.h5"):
        (tmp_path / name).touch()
    path = write_cases("poisson", [with_hole(0)], tmp_path / "own.h5")
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_not_overwritten_and_not_empty(tmp_path):
    path = write_cases("poisson", [with_hole(0)], tmp_path / "own.h5")
    with pytest.raises(ValueError, match="exists already"):
        write_cases("poisson", [with_hole(1)], path)
    with pytest.raises(ValueError, match="at least one case"):
        write_cases("poisson", [], tmp_path / "none.h5")
    with pytest.raises(ValueError, match="needs a domain, got source"):
        write_cases("poisson", [{"source": 1.0}], tmp_path / "none.h5")


def test_cases_are_given_as_cases_too(tmp_path):
    given = [with_hole(case) for case in range(3)]
    cases = [disol.Case.from_arrays("poisson", **each, conventions="paper") for each in given]
    here, there = write_cases("poisson", given, tmp_path / "a.h5"), write_cases("poisson", cases, tmp_path / "b.h5")
    ours, theirs = (open_store(path).read() for path in (here, there))
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)
    other = disol.Case.from_arrays("poisson", diffusion=2, **given[1], conventions="paper")
    with pytest.raises(ValueError, match=r"Case 1 failed: All cases of a file are of one problem.*diffusion=2\.0"):
        write_cases("poisson", [cases[0], other], tmp_path / "c.h5")
    with pytest.raises(ValueError, match="of one problem, here poisson, got heat"):
        write_cases("poisson", [disol.draw("heat", resolution=16, conventions="paper")], tmp_path / "d.h5")


def test_a_list_of_cases_and_a_generator_of_them_make_the_same_file(tmp_path):
    given = [with_hole(case) for case in range(3)]
    here = write_cases("poisson", given, tmp_path / "a.h5")
    there = write_cases("poisson", (each for each in given), tmp_path / "b.h5")
    ours, theirs = (open_store(path).read() for path in (here, there))
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


def test_what_is_no_case_of_pixels_is_refused(tmp_path):
    case = with_hole(0)
    with pytest.raises(disol.DisolError, match="Case 1 must be a Case, or its data by name, got Solution"):
        write_cases("poisson", [case, disol.solve_exact("poisson", **case, conventions="paper")], tmp_path / "own.h5")
    with pytest.raises(disol.DisolError, match="Case 0 failed: A file holds marked pixels, but dirichlet is stated"):
        write_cases("poisson", [{**case, "dirichlet": {"left": 0}}], tmp_path / "own.h5")


def test_a_force_that_a_file_cannot_keep_is_refused_instead_of_rounded(tmp_path):
    force = 0.5 * (SQUARE & (np.arange(SIDE) == 16))
    case = {"domain": SQUARE, "fix_x": HELD, "fix_y": HELD, "force_x": force, "force_y": 0 * force}
    with pytest.raises(ValueError, match=r"Case 0 failed: force_x must hold only -1, 0, 1 .*got 0\.5"):
        write_cases("elasticity", [case], tmp_path / "own.h5")
