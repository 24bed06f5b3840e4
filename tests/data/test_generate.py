"""What is generated depends on the seed and the index alone."""

import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch

from disol import draw, solve_exact
from disol.data import describe, generate, open_store
from disol.data.backends import DeviceBackend, discretise_cases, solve_cases
from disol.data.generate import choose_chunk
from disol.data.layout import count_case_bytes
from disol.data.packing import get_encodings
from disol.data.recipe import Recipe, read_recipe
from disol.errors import DisolError
from disol.problems.table import PROBLEMS
from disol.solvers import solve_systems

ON_CPU = DeviceBackend(torch.device("cpu"))


def contents(path: Path) -> dict[str, bytes]:
    return {name: values.tobytes() for name, values in open_store(path).read().items()}


def test_every_number_of_workers_and_chunk_size_gives_the_same_cases(poisson_file: Path, tmp_path: Path) -> None:
    for name, workers, chunk in [("one", 1, 3), ("two", 2, 4), ("whole", 0, 100)]:
        path = tmp_path / f"{name}.h5"
        report = generate("poisson", 10, path, seed=3, resolution=20, workers=workers, chunk=chunk)
        assert (report.cases, report.generated, report.fallbacks) == (10, 10, 0)
        assert contents(path) == contents(poisson_file)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_stored_case_is_the_case_that_draw_and_solve_exact_give(problem: str, tmp_path: Path) -> None:
    generate(problem, 3, tmp_path / "cases.h5", seed=5, shift="boundary", resolution=16, workers=0)
    store = open_store(tmp_path / "cases.h5")
    arrays, times = store.read(), store.settings.times
    case = draw(problem, 5, 2, resolution=16, shift="boundary", conventions="paper")
    exact = solve_exact(case, **({"times": times} if times else {}))
    assert np.array_equal(arrays["pattern"][2], exact.pattern.astype(np.float32))
    assert arrays["amplitude"][2] == exact.amplitude
    for name in set(store.names) & set(case.channels):
        assert np.array_equal(arrays[name][2], case.channel(name))


def test_a_longer_file_begins_with_the_cases_of_a_shorter_one(poisson_file: Path, tmp_path: Path) -> None:
    generate("poisson", 12, tmp_path / "longer.h5", seed=3, resolution=20, workers=0)
    assert np.array_equal(
        open_store(tmp_path / "longer.h5").read()["pattern"][:10], open_store(poisson_file).read()["pattern"]
    )


def test_resuming_starts_a_file_that_is_missing_and_leaves_a_finished_one_alone(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "cases.h5"
    options = {"resolution": 16, "workers": 0, "resume": True}
    assert generate("poisson", 2, path, **options).generated == 2
    before = path.read_bytes()
    again = generate("poisson", 2, path, **options)
    assert again.generated == 0
    assert "is complete: 2 cases, nothing to do" in str(again)
    assert path.read_bytes() == before
    with pytest.raises(ValueError, match=r"begun with seed=0, now asked for 1\. Ask for the same"):
        generate("poisson", 2, path, seed=1, **options)
    with pytest.raises(ValueError, match="exists already"):
        generate("poisson", 2, path, resolution=16, workers=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_cases": 0}, "num_cases must be at least 1"),
        ({"num_cases": 2.5}, "num_cases must be a whole number"),
        ({"chunk": 0}, "chunk must be at least 1"),
        ({"workers": -1}, "workers must not be negative"),
        ({"seed": -1}, "seed must not be negative"),
        ({"problem": "laplace"}, "Unknown problem 'laplace'"),
        ({"shift": "sideways"}, "Unknown shift 'sideways'"),
        ({"conventions": "mine"}, "Unknown conventions 'mine'"),
        ({"problem": "heat", "conventions": "published"}, "heat knows only the conventions 'paper'"),
        ({"resolution": 8}, r"resolution must lie in \[16, 4096\]"),
        ({"device": "tpu"}, "Unknown device 'tpu'"),
        ({"resume": np.ones(2)}, r"resume must be True or False, got array\(\[1\., 1\.\]\)"),
        ({"path": 3}, "path must be a path, got 3"),
        ({"path": "no\0name.h5"}, r"^Cannot write no\?name\.h5: embedded null byte"),
        ({"path": "no\0folder/cases.h5"}, r"^Cannot write no\?folder/cases\.h5: embedded null byte"),
        ({"path": "x" * 10**5 + ".h5"}, r"^xxx.*x\.\.\.x.*xxx\.h5 cannot be used: File name too long"),
    ],
)
def test_what_cannot_be_generated_is_refused_before_a_file_is_made(
    change: dict[str, object], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = {"problem": "poisson", "num_cases": 2, "path": "cases.h5", "resolution": 16, "workers": 0, **change}
    with pytest.raises(DisolError, match=message) as raised:
        generate(**asked)
    assert len(str(raised.value)) < 1000
    assert not list(tmp_path.iterdir())


def test_a_case_that_fails_is_named_and_the_cases_before_it_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cases.h5"
    asked = {"seed": 1, "resolution": 16, "workers": 0, "chunk": 1}

    def fail_at_two(recipe: Recipe, index: int) -> object:
        if index == 2:
            raise DisolError("No outline came out.")
        return draw(recipe.problem, recipe.seed, index, resolution=recipe.resolution, conventions="paper")

    with monkeypatch.context() as patched:
        patched.setattr(Recipe, "draw", fail_at_two)
        with pytest.raises(ValueError, match=r"Case 2 failed: No outline came out\."):
            generate("poisson", 4, path, **asked)
    assert open_store(path, unfinished=True).num_done == 2
    assert generate("poisson", 4, path, resume=True, **asked).generated == 2
    assert contents(path) == contents_of_a_new_file(tmp_path / "new.h5")


def contents_of_a_new_file(path: Path) -> dict[str, bytes]:
    generate("poisson", 4, path, seed=1, resolution=16, workers=0)
    return contents(path)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("conventions", ["paper", "published"])
def test_the_batched_solver_writes_what_the_reference_solver_writes(problem: str, conventions: str) -> None:
    if (problem, conventions) == ("heat", "published"):
        conventions = "paper"
    recipe = read_recipe(problem, 2, None, conventions, 16)
    cases = range(5, 9)
    expected = solve_cases(recipe, cases)
    found, fallbacks = ON_CPU.finish(recipe, discretise_cases(recipe, cases))
    assert fallbacks == 0
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].dtype == values.dtype
        if name in ("pattern", "amplitude"):
            assert found[name] == pytest.approx(values, rel=1e-6, abs=1e-7), name
        else:
            assert np.array_equal(found[name], values), name


@pytest.mark.parametrize(("memory", "cases"), [(0.5, 1), (5.5, 5), (1000.0, 64)])
def test_a_chunk_is_as_large_as_the_back_end_likes_and_memory_allows(memory: float, cases: int) -> None:
    recipe = read_recipe("heat", 2, None, "paper", 16)
    size = count_case_bytes(recipe.settings(100), get_encodings(recipe.problem))
    assert choose_chunk(replace(ON_CPU, largest_chunk=64, chunk_bytes=int(memory * size)), size) == cases


def test_the_batched_solver_takes_the_amplitude_of_heat_over_20_seconds() -> None:
    growing = replace(PROBLEMS["heat"], source_strength=100.0)  # largest at the last frame
    recipe = read_recipe(growing, 2, None, "paper", 16)
    expected = solve_cases(recipe, range(2))
    found, _ = ON_CPU.finish(recipe, discretise_cases(recipe, range(2)))
    assert np.abs(expected["pattern"]).max() > 1.01
    for name in ("pattern", "amplitude"):
        assert found[name] == pytest.approx(expected[name], rel=1e-6, abs=1e-7), name


def test_a_report_counts_the_cases_that_were_solved_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = import_module("disol.data.generate")  # the function of that name hides it
    monkeypatch.setattr(module, "choose_backend", lambda device: ON_CPU)
    monkeypatch.setattr("disol.solvers.solve_systems", lambda *asked: replace(solve_systems(*asked), fallbacks=(0,)))
    report = generate("poisson", 5, tmp_path / "cases.h5", resolution=16, workers=0, chunk=2)
    assert report.fallbacks == 3  # one for each chunk
    assert "3 by the reference solver" in str(report)
    assert len(repr(report)) < 120 + len(str(report.path))


def test_the_steps_of_heat_are_discretised() -> None:
    recipe = read_recipe("heat", 2, None, "paper", 16)
    systems = discretise_cases(recipe, range(2))
    assert systems["initial_nodes"].shape == systems["load"].shape == (2, 1, 17, 17)
    assert not systems["initial_nodes"][~systems["free"]].any()


def test_a_description_tells_what_a_file_holds(poisson_file: Path, heat_file: Path) -> None:
    rows = dict(describe(poisson_file))
    assert rows["problem"].startswith("poisson")
    assert rows["cases"] == "10"
    assert rows["splits"] == "train 8, validation 2"
    assert dict(describe(heat_file))["frames"] == "25 from 2 s to 50 s"


def test_worker_processes_need_no_torch() -> None:
    script = (
        "import sys\n"
        "from disol.data.backends import discretise_cases, solve_cases\n"
        "from disol.data.recipe import read_recipe\n"
        "for problem in ('poisson', 'heat'):\n"
        "    recipe = read_recipe(problem, 2, None, 'paper', 16)\n"
        "    solve_cases(recipe, range(1)), discretise_cases(recipe, range(1))\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
