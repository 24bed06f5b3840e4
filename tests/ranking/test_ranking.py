"""Rankings are those of a loop over `solve_exact`; what fails is a row; no worker outlives an interruption."""

import csv
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib import pyplot
from rich.console import Console

import disol
from disol import DisolError
from disol.ranking import variants
from disol.ranking.measures import MEASURES
from processes import session_members, wait_until

SIDE = 16


def drawn(count: int, problem: str = "poisson", conventions: str = "physical", **options: Any) -> list[disol.Case]:
    known = {"resolution": SIDE, "conventions": conventions, **options}
    return [disol.draw(problem, seed=4, index=index, **known) for index in range(count)]


def largest(solution: disol.Solution) -> float:
    return float(np.abs(solution.field).max())


def values(ranking: disol.Ranking) -> list[float]:
    return [row.value for row in ranking.ranked]


def written(ranking: disol.Ranking, most: int | None = None) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(ranking.table(most))
    return captured.get()


@pytest.mark.parametrize("workers", [1, 2])
def test_a_ranking_is_that_of_a_loop_to_the_last_bit(workers: int) -> None:
    cases = [*drawn(3), *drawn(3, "elasticity"), *drawn(2, conventions="paper"), *drawn(2, "heat")]
    cases.append(disol.read_case("poisson", "star+hole", source="sin(6*x)*y", conventions="physical"))
    found = {number: largest(disol.solve_exact(case)) for number, case in enumerate(cases)}
    ranking = disol.rank(cases, workers=workers)
    assert [row.number for row in ranking] == sorted(found, key=found.__getitem__)
    assert [row.rank for row in ranking] == [*range(1, len(cases) + 1)]
    assert all(row.value == found[row.number] for row in ranking)


def test_the_largest_is_the_best_if_asked_and_equal_ones_keep_their_order() -> None:
    cases = drawn(4)
    ranking = disol.rank([*cases, cases[0]], ascending=False)
    assert values(ranking) == sorted(values(ranking), reverse=True)
    same = [row.number for row in ranking if row.value == largest(disol.solve_exact(cases[0]))]
    assert same == [0, 4]
    assert ranking.best is ranking[0]
    assert largest(ranking.best.solution) == ranking.best.value


def test_a_batch_is_ranked_case_by_case_and_names_come_from_a_mapping() -> None:
    cases = drawn(3, conventions="paper")
    assert values(disol.rank(disol.Case.stack(cases))) == values(disol.rank(cases))
    ranking = disol.rank({f"part {number}": case for number, case in enumerate(cases)})
    assert {row.name for row in ranking} == {"part 0", "part 1", "part 2"}


def test_a_function_of_the_solution_is_what_they_are_ranked_by() -> None:
    cases = drawn(3)
    ranking = disol.rank(cases, by=lambda solution: -solution.field.sum())
    assert values(ranking) == sorted(-disol.solve_exact(case).field.sum() for case in cases)


def refuse() -> disol.Case:
    raise DisolError("This one is refused.")


def test_a_case_that_fails_is_a_row_with_its_error_and_comes_last() -> None:
    with pytest.warns(UserWarning, match="Notes on 2 of 4 cases, the first on thin .*thinner than 4 pixels"):
        ranking = disol.rank(
            {
                "unreadable": partial(disol.read_case, "poisson", "nowhere.json"),
                "refused": refuse,
                **{f"thin {number}": thin(16 + number) for number in range(2)},
            }
        )
    assert [row.rank for row in ranking] == [1, 2, None, None]
    assert [row.name for row in ranking.failed] == ["unreadable", "refused"]
    assert ranking.failed[0].error == "Cannot read nowhere.json: No such file or directory. Check the path."
    assert ranking.worst.name.startswith("thin")
    assert "This one is refused." in written(ranking)
    assert "2 failed" in repr(ranking)


def thin(width: int) -> disol.Case:
    domain = np.zeros((32, 32))
    domain[8:11, 4 : 4 + width] = 1
    stated: dict[str, Any] = {"fix_x": {"left": 0}, "fix_y": {"left": 0}, "force_y": {"right": 1}}
    return disol.Case.from_arrays("elasticity", domain=domain, conventions="physical", **stated)


def test_where_all_fail_there_is_no_best() -> None:
    ranking = disol.rank([refuse, refuse])
    assert disol.rank([lambda: 1 / 0])[0].error == (
        "The function that makes it raised ZeroDivisionError: division by zero."
    )
    assert disol.rank([lambda: "star"])[0].error.endswith("but what its function made is a str.")
    with pytest.raises(DisolError, match=r"None of 2 cases could be ranked, 0: This one is refused\."):
        ranking.best  # noqa: B018
    assert repr(ranking) == "Ranking(2 cases by max, 2 failed)"


@pytest.mark.parametrize(
    ("by", "error"),
    [
        (lambda solution: solution.field, "<lambda> must give one finite number, got array"),
        (lambda solution: np.nan, "<lambda> must give one finite number, got nan"),
        (lambda solution: 1 / 0, "<lambda> raised ZeroDivisionError: division by zero."),
        ("max_displacement", "poisson"),
        ("von_mises", "poisson"),
        ("flux:nowhere", "There is no part 'nowhere'"),
    ],
)
def test_what_cannot_be_measured_is_told_in_one_line(by: Any, error: str) -> None:
    (row,) = disol.rank(drawn(1), by=by)
    assert error in row.error
    assert "\n" not in row.error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"by": "beauty"}, "by must be max, max_temperature, .*or a function of a solution, got 'beauty'"),
        ({"by": "flux:"}, "by must be max"),
        ({"by": 3}, "by must be max"),
        ({"by": {"max": 1}}, "by must be max"),
        ({"by": np.ones(5)}, "by must be max"),
        ({"cases": []}, "at least one case, got none"),
        ({"cases": drawn(1)[0]}, "cases must be several cases"),
        ({"cases": np.array(3)}, "cases must be several cases"),
        ({"cases": ["star"]}, "Cases, or functions that make them, are ranked, but case 0 is a str"),
        (
            {"cases": [disol.Case.stack(drawn(2, conventions="paper"))]},
            "Single cases are ranked, but case 0 is a batch of 2",
        ),
        ({"ascending": np.array([True, False])}, "ascending must be True or False"),
        ({"progress": np.array([True, False])}, "progress must be True or False"),
        ({"workers": -1}, "workers must not be negative"),
        ({"device": "tpu"}, "tpu"),
    ],
)
def test_what_cannot_be_ranked_is_refused_in_one_line(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(DisolError, match=message):
        disol.rank(**{"cases": drawn(1), **arguments})


def test_functions_that_no_other_process_can_have_are_told_with_a_remedy() -> None:
    domain, held = np.ones((SIDE, SIDE)), np.eye(SIDE)
    case = disol.Case.from_arrays("poisson", domain=domain, dirichlet=held, source=lambda x, y: x, conventions="paper")
    for arguments in ({"cases": [case] * 2}, {"cases": drawn(2), "by": lambda solution: 1.0}):
        with pytest.raises(DisolError, match=r"cannot be sent to worker processes: .* Pass workers=1"):
            disol.rank(**arguments, workers=2)
    assert len(disol.rank([case] * 2, workers=1).ranked) == 2


def test_measures_are_those_of_the_solution() -> None:
    elastic, scalar = thin(16), drawn(1)[0]
    with pytest.warns(UserWarning, match="thinner"):
        solution = disol.solve_exact(elastic)
    expected = {
        "max": largest(solution),
        "max_displacement": np.hypot(*solution.field).max(),
        "von_mises": solution.von_mises.max(),
        "compliance": solution.compliance,
        "energy": solution.energy,
        "flux:right": 3 / 32,  # a traction of 1 on three pixels
    }
    for by, value in expected.items():
        assert MEASURES.keys() >= {by} or by.startswith("flux:")
        with pytest.warns(UserWarning, match="thinner"):
            assert disol.rank([elastic], by).best.value == pytest.approx(value, rel=1e-12)
    warm = disol.rank([scalar], "max_temperature").best
    assert warm.value == warm.amplitude
    heat = drawn(1, "heat")[0]
    fluxes = disol.solve_exact(heat).total_flux("outer")
    assert disol.rank([heat], "flux:outer").best.value == fluxes[np.abs(fluxes).argmax()]
    with pytest.warns(UserWarning, match="thinner"):
        assert "max_temperature is for problems with one unknown" in disol.rank([elastic], "max_temperature")[0].error


def test_batches_hold_cases_of_one_kind_and_leave_true_boundaries_to_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variants, "BATCH", 2)
    cases = [*drawn(3, conventions="paper"), *drawn(2), *drawn(2, "heat", conventions="paper"), refuse]
    outcomes = dict(variants.solve_in_batches(cases, "max", "cpu"))
    assert sorted(outcomes) == [0, 1, 2, 5, 6, 7]
    assert outcomes[7].error == "This one is refused."
    for number in (0, 1, 2, 5, 6):
        assert outcomes[number].value == pytest.approx(largest(disol.solve_exact(cases[number])), rel=1e-12)


def test_a_batch_that_is_refused_is_solved_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse_lists(cases: Any, **options: Any) -> disol.Solution:
        return refuse() if isinstance(cases, list) else disol.solve_exact(cases, **options)

    monkeypatch.setattr(variants, "solve_exact", refuse_lists)
    cases = drawn(2, conventions="paper")
    outcomes = dict(variants.solve_in_batches(cases, "max", "cpu"))
    assert [outcomes[number].value for number in range(2)] == [largest(disol.solve_exact(case)) for case in cases]


def test_a_saved_ranking_reads_as_it_was(tmp_path: Path) -> None:
    cases: dict[str, Any] = {'a "part", with commas': drawn(1)[0], "two\nlines": drawn(2)[1], "refused": refuse}
    ranking = disol.rank(cases)
    with ranking.save(tmp_path / "new" / "ranking.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3
    for read, row in zip(rows, ranking, strict=True):
        assert (read["name"], int(read["number"]), read["by"]) == (row.name, row.number, "max")
        assert (read["rank"] or None) == (None if row.rank is None else str(row.rank))
        assert [float(read[name]) if read[name] else None for name in ("value", "amplitude")] == [
            row.value,
            row.amplitude,
        ]
        assert (read["error"] or None) == row.error
    with pytest.raises(DisolError, match=r"A ranking is saved as \.csv, got 'ranking.xlsx'"):
        ranking.save(tmp_path / "ranking.xlsx")


def test_a_name_that_no_text_can_hold_is_saved_readably(tmp_path: Path) -> None:
    path = disol.rank({"part-\udc80": drawn(1)[0]}).save(tmp_path / "ranking.csv")
    assert "part-\\udc80" in path.read_text(encoding="utf-8")


def test_long_tables_show_their_ends_and_notebooks_see_no_tags() -> None:
    ranking = disol.rank({f"<b>{number}</b>": case for number, case in enumerate(drawn(6))})
    lines = written(ranking, most=3).splitlines()
    assert len(lines) == 5
    assert "3 more" in lines[3]
    assert lines[4].split()[0] == "6"
    assert "<b>" not in ranking._repr_html_()
    assert "&lt;b&gt;" in ranking._repr_html_()


@pytest.mark.parametrize("problem", ["poisson", "elasticity", "heat"])
def test_the_picture_shows_the_best_and_the_worst_in_one_scale(problem: str) -> None:
    ranking = disol.rank(drawn(3, problem))
    figure = ranking.plot()
    titles = [axes.get_title() for axes in figure.axes]
    for name, row in (("best", ranking.best), ("worst", ranking.worst)):
        assert any(f"{name}: {row.name}\nmax {row.value:.4g}" == title for title in titles)
    images = [each for axes in figure.axes for each in (*axes.images, *axes.collections) if each.colorbar is not None]
    assert len(images) == 2
    assert images[0].get_clim() == images[1].get_clim()
    pyplot.close(figure)


SCRIPT = """
import signal, sys
from functools import partial
from slow import begin_and_wait
import disol
if __name__ == "__main__":
    # In the background of a shell, where the tests may run, it is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    disol.rank([partial(begin_and_wait, sys.argv[1]) for _ in range(9)], workers=2)
"""
SLOW = """
import os, pathlib, time
def begin_and_wait(folder):
    pathlib.Path(folder, str(os.getpid())).touch()
    time.sleep(3600)
"""


def test_an_interruption_ends_workers_in_the_middle_of_a_case(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "slow.py").write_text(SLOW)
    (began := tmp_path / "began").mkdir()
    process = subprocess.Popen(
        [sys.executable, tmp_path / "script.py", began], start_new_session=True, stderr=subprocess.PIPE, text=True
    )
    assert wait_until(lambda: len(list(began.iterdir())) == 2)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert said.count("Traceback") == said.count("KeyboardInterrupt") == 1
    assert wait_until(lambda: not session_members(process.pid))
