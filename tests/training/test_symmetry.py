"""A symmetry turns an exactly solved case into an exactly solved case."""

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from solved_case import SIDE, solved

from disol import PROBLEMS, draw
from disol._terms import SOURCE, Term
from disol.data import CaseDataset
from disol.fem import consistent_load, forms
from disol.problems.conventions import CONVENTIONS, PAPER
from disol.problems.elasticity import ElasticityProblem
from disol.problems.problem import Problem
from disol.problems.scalar import ScalarProblem
from disol.training.augmentation import IDENTITY, SQUARE_GROUP, Element, Symmetries, find_symmetries

SYMMETRIC = [("poisson", "paper"), ("heat", "paper"), ("elasticity", "paper"), ("elasticity", "published")]


def like(problem: str, own: type[Problem]) -> Problem:
    """Return a problem of one's own with the numbers of one of the package."""
    return own(**{each.name: getattr(PROBLEMS[problem], each.name) for each in fields(PROBLEMS[problem])})


def symmetries(problem: str, conventions: str = "paper") -> Symmetries:
    return Symmetries.of(PROBLEMS[problem], CONVENTIONS[conventions], SIDE, "cpu")


@pytest.mark.parametrize(("problem", "conventions"), SYMMETRIC)
@settings(max_examples=10)
@given(index=st.integers(0, 1000))
def test_a_moved_case_has_the_moved_solution(problem: str, conventions: str, index: int) -> None:
    group = symmetries(problem, conventions)
    case = solved(problem, conventions, draw(problem, 7, index, resolution=SIDE, conventions=conventions).inputs)
    for number in range(len(SQUARE_GROUP)):
        moved = group.apply(case, torch.tensor([number]))
        again = solved(problem, conventions, moved["inputs"][0].numpy())
        for name, expected in again.items():
            torch.testing.assert_close(moved[name], expected, rtol=1e-6, atol=2e-6)


class LoadedProblem(ElasticityProblem):
    """Driven by a force in its volume, which has two components, not by forces on its boundary."""

    terms = (*ElasticityProblem.terms[:3], Term("body_x", SOURCE, "x"), Term("body_y", SOURCE, "y"))

    def load(self, terms, conventions, element):
        del conventions
        test = forms.galerkin_test(element)
        loads = [consistent_load(element, test, terms["domain"], terms[name]) for name in ("body_x", "body_y")]
        return np.stack(loads, axis=-3)


def test_a_source_with_components_is_mirrored_like_a_vector() -> None:
    own = like("elasticity", LoadedProblem)
    case = solved(own, "paper", draw(own, 7, 0, resolution=SIDE).inputs)
    group = Symmetries.of(own, PAPER, SIDE, "cpu")
    assert group.elements == SQUARE_GROUP
    for number in range(len(SQUARE_GROUP)):
        moved = group.apply(case, torch.tensor([number]))
        expected = solved(own, "paper", moved["inputs"][0].numpy())["target"]
        torch.testing.assert_close(moved["target"], expected, rtol=1e-6, atol=2e-6)


def test_a_mirrored_case_of_advection_has_another_solution() -> None:
    problem = "advection-diffusion-high"
    case = solved(problem, "paper", draw(problem, 7, 0, resolution=SIDE, conventions="paper").inputs)
    moved = Symmetries.of(PROBLEMS[problem], PAPER, SIDE, "cpu", SQUARE_GROUP).apply(case, torch.tensor([1]))
    assert (solved(problem, "paper", moved["inputs"][0].numpy())["target"] - moved["target"]).abs().max() > 1e-2
    for name in ("advection-diffusion-low", problem):
        for conventions in CONVENTIONS.values():
            assert find_symmetries(PROBLEMS[name], conventions) == (IDENTITY,)


def random_batch(file: Path) -> dict[str, torch.Tensor]:
    cases = CaseDataset(file, "all").to_device("cpu")
    indices = torch.arange(8)
    return cases.batch(indices, frames=indices % 3 if cases.settings.times else None)


@pytest.mark.parametrize(("problem", "conventions"), SYMMETRIC)
def test_the_symmetries_form_a_group(file_of: Callable[..., Path], problem: str, conventions: str) -> None:
    batch = random_batch(file_of(problem, conventions))
    group = symmetries(problem, conventions)
    images = [group.apply(batch, torch.full((8,), number)) for number in range(8)]

    def position(moved: dict[str, torch.Tensor]) -> int:
        [found] = [
            number
            for number, image in enumerate(images)
            if all(torch.allclose(moved[name], image[name], atol=1e-6) for name in batch)
        ]
        return found

    products = [[position(group.apply(image, torch.full((8,), number))) for image in images] for number in range(8)]
    assert position(batch) == SQUARE_GROUP.index(IDENTITY) == 0
    for number in range(8):
        assert sorted(products[number]) == list(range(8))  # hence an inverse, too
        assert sorted(row[number] for row in products) == list(range(8))


def test_each_case_is_moved_by_its_own_element(file_of: Callable[..., Path]) -> None:
    batch = random_batch(file_of("elasticity"))
    group = symmetries("elasticity")
    together = group.apply(batch, torch.arange(8))
    for number in range(8):
        alone = group.apply(batch, torch.full((8,), number))
        for name in batch:
            assert torch.equal(together[name][number], alone[name][number])


def test_elements_are_drawn_alike_from_alike_generators_and_all_of_them_occur() -> None:
    group = symmetries("poisson")
    drawn = [group.draw(200, torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert set(drawn[0].tolist()) == set(range(8))


class StretchedProblem(ScalarProblem):
    """Conducts ten times better along x than along y."""

    def element_matrix(self, element, conventions):
        along_x = forms.advection(element, (1.0, 0.0))  # ∫ Nᵢ ∂Nⱼ/∂x, of which only the shape of the stencil counts
        return super().element_matrix(element, conventions) + 9 * (along_x.T @ along_x)


def test_a_problem_of_ones_own_has_the_symmetries_of_its_matrix() -> None:
    expected = {element for element in SQUARE_GROUP if not element.transposed}
    assert set(find_symmetries(like("poisson", StretchedProblem), PAPER)) == expected


@pytest.mark.parametrize("problem", ["poisson", "heat", "elasticity"])
def test_shipped_problems_without_a_direction_have_all_symmetries_of_the_square(problem: str) -> None:
    assert find_symmetries(PROBLEMS[problem], PAPER) == SQUARE_GROUP


def test_a_flow_along_an_axis_leaves_the_reflection_in_that_axis() -> None:
    flow = replace(PROBLEMS["advection-diffusion-low"], velocity=(1.0, 0.0))
    for conventions in CONVENTIONS.values():
        assert set(find_symmetries(flow, conventions)) == {IDENTITY, Element(False, 1, -1)}


class InhomogeneousProblem(ScalarProblem):
    """Does not say that it is the same everywhere."""

    is_homogeneous = False


class PushedProblem(ElasticityProblem):
    """Forces along x alone: exchanging x and y would need a force along y."""

    terms = tuple(term for term in ElasticityProblem.terms if term.name != "force_y")


@pytest.mark.parametrize(
    ("kind", "base", "expected"),
    [
        (InhomogeneousProblem, "poisson", {IDENTITY}),
        (PushedProblem, "elasticity", {element for element in SQUARE_GROUP if not element.transposed}),
    ],
)
def test_a_problem_is_turned_only_as_its_terms_can_be(kind: type, base: str, expected: set) -> None:
    assert set(find_symmetries(like(base, kind), PAPER)) == expected
