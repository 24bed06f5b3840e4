"""A translation turns an exactly solved case into an exactly solved case, wherever there is room for it."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from solved_case import SIDE, solved

from disol import PROBLEMS, draw
from disol.data import CaseDataset
from disol.problems.conventions import PAPER
from disol.training.augmentation import IDENTITY, Symmetries, translate
from disol.training.batches import plan_epoch

CONVENTIONS = [*((problem, "paper") for problem in PROBLEMS), ("elasticity", "published")]


@pytest.mark.parametrize(("problem", "conventions"), CONVENTIONS)
@settings(max_examples=5)
@given(index=st.integers(0, 1000), place=st.tuples(*(st.floats(0, 1, width=32),) * 2))
def test_a_moved_case_has_the_moved_solution(problem: str, conventions: str, index: int, place) -> None:
    assert PROBLEMS[problem].is_homogeneous
    case = solved(problem, conventions, draw(problem, 7, index, resolution=SIDE, conventions=conventions).inputs)
    moved = translate(case, torch.tensor([place]))
    again = solved(problem, conventions, moved["inputs"][0].numpy())
    assert moved["domain"].sum() == case["domain"].sum()
    for name, expected in again.items():
        torch.testing.assert_close(moved[name], expected, rtol=1e-6, atol=2e-6)


def batch_of(*rectangles: tuple[slice, slice]) -> dict[str, torch.Tensor]:
    domain = torch.zeros(len(rectangles), 1, 5, 7, dtype=torch.bool)
    for case, rectangle in zip(domain, rectangles, strict=True):
        case[0][rectangle] = True
    return {"inputs": domain.float(), "target": 2.0 * domain, "domain": domain}


def test_every_place_on_the_grid_is_reached_equally_often() -> None:
    batch = batch_of((slice(1, 3), slice(2, 5)))
    places = {}
    for down in (0.0, 0.2, 0.3, 0.6, 0.99):
        for right in (0.0, 0.3, 0.5, 0.7, 0.99):
            moved = translate(batch, torch.tensor([[down, right]]))
            places[down, right] = tuple(moved["domain"][0, 0].nonzero()[0].tolist())
            assert torch.equal(moved["target"], 2 * moved["inputs"])
    # Two of five rows can begin in four, three of seven columns in five.
    assert places == {(down, right): (int(4 * down), int(5 * right)) for down, right in places}


def test_every_case_has_a_place_of_its_own_and_a_full_grid_stays() -> None:
    batch = batch_of((slice(0, 5), slice(0, 7)), (slice(0, 1), slice(0, 1)), (slice(2, 3), slice(0, 7)))
    moved = translate(batch, torch.tensor([[0.9, 0.9], [1.0, 1.0], [0.0, 0.5]]))
    assert torch.equal(moved["domain"][0], batch["domain"][0])
    assert moved["domain"][1, 0].nonzero().tolist() == [[4, 6]]
    assert moved["domain"][2, 0].any(1).tolist() == [True, False, False, False, False]


def test_an_epoch_moves_its_cases_only_if_asked(file_of: Callable[..., Path]) -> None:
    cases = CaseDataset(file_of("poisson"), "train").to_device("cpu")
    still = Symmetries.of(PROBLEMS["poisson"], PAPER, cases.settings.resolution, "cpu", [IDENTITY])
    plans = [plan_epoch(cases, still, seed=1, epoch=0, batch_size=8, moved=moved) for moved in (False, True, True)]
    assert torch.equal(plans[0].indices, plans[1].indices)
    batches = [next(plan.batches(cases, still))["inputs"] for plan in plans]
    assert not torch.equal(batches[0], batches[1])
    assert torch.equal(batches[1], batches[2])
