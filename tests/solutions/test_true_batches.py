"""A batch of cases on their true boundary is what its cases are, one by one, whatever each of them has of its own."""

import subprocess
import sys

import numpy as np
import pytest

import disol
from disol import Case, DisolError

SIDE = 24


def frame(width):
    """A square with a square hole, held along its top."""
    domain, held = np.zeros((2, SIDE, SIDE))
    domain[2:-2, 2:-2], held[2, 2:-2] = 1, 1
    domain[8 : 8 + width, 8 : 8 + width] = 0
    return {"domain": domain, "dirichlet": held, "source": domain * np.arange(SIDE)}


def require_same(batch, alone):
    assert len(batch) == len(alone)
    assert np.array_equal(batch.field, np.stack([each.field for each in alone]))
    assert np.array_equal(batch.amplitude, [each.amplitude for each in alone])
    assert np.array_equal(batch.rounding_error, [each.rounding_error for each in alone])
    assert batch.nodes is None


@pytest.mark.parametrize("problem", ["poisson", "advection-diffusion-high", "elasticity", "heat"])
def test_drawn_cases_keep_their_curves_in_a_batch(problem):
    cases = [disol.draw(problem, 3, index, resolution=SIDE) for index in (1, 2)]
    if problem == "heat":
        cases = [Case.from_arrays(case, times=[0, 4, 22]) for case in cases]
    batch = disol.solve_exact(cases)
    assert batch.case.boundary == "true"
    assert batch.case.conventions.name == "physical"
    alone = [disol.solve_exact(case) for case in cases]
    require_same(batch, alone)
    one = batch[1]
    assert np.array_equal(one.field, alone[1].field)
    assert one.case.boundary == "true"
    assert one.estimate_distance() == alone[1].estimate_distance()
    with pytest.raises(DisolError, match="for one case, got a batch of 2"):
        batch.estimate_distance()


def test_members_of_a_batch_are_the_cases_it_was_made_of():
    cases = [disol.draw("poisson", 3, index, resolution=SIDE) for index in range(3)]
    batch = Case.stack(cases)
    assert all(own is case for own, case in zip(batch, cases, strict=True))
    assert batch[-1] is cases[2]
    assert batch[1:].members == tuple(cases[1:])
    assert [len(piece) for piece in batch.pieces(2)] == [1, 2]
    assert Case.stack([case.on_pixels() for case in cases]).members == ()


def test_a_batch_of_masks_is_solved_case_by_case_on_all_cores():
    frames = [frame(width) for width in (3, 5, 7)]
    stacked = {name: np.stack([each[name] for each in frames]) for name in ("domain", "source")}
    batch = disol.solve_exact("poisson", **stacked, dirichlet=frames[0]["dirichlet"])
    assert batch.case.boundary == "edges"
    require_same(batch, [disol.solve_exact("poisson", **each) for each in frames])
    sources = [lambda x, y: x, lambda x, y: y]
    batch = disol.solve_exact("poisson", **{**frames[0], "source": sources})
    require_same(batch, [disol.solve_exact("poisson", **{**frames[0], "source": source}) for source in sources])


def test_cases_of_a_batch_have_coefficients_and_conditions_of_their_own():
    layers = np.stack([np.where(np.arange(SIDE) < SIDE // 2, 1.0, ratio) * np.ones((SIDE, SIDE)) for ratio in (2, 9)])
    flow = np.stack([layers, 2 * layers], axis=1)
    domains = np.stack([frame(width)["domain"] for width in (3, 5)])
    stated = {"dirichlet": {"left": 20, "right": "x + y"}, "flux": {"hole1": 2}}
    batch = disol.solve_exact("poisson", domain=domains, **stated, diffusion=layers, velocity=flow, reaction=5.0)
    alone = [
        disol.solve_exact("poisson", domain=domain, **stated, diffusion=layer, velocity=own, reaction=5.0)
        for domain, layer, own in zip(domains, layers, flow, strict=True)
    ]
    require_same(batch, alone)
    require_same(disol.solve_exact([each.case for each in alone]), alone)
    assert "own diffusion, velocity, reaction" in repr(batch.case)
    assert np.array_equal(batch.arrays()["diffusion"] * domains, layers * domains)
    shared = disol.solve_exact("poisson", domain=domains, **stated, diffusion=lambda x, y: 1 + x)
    assert np.array_equal(
        shared.field[1],
        disol.solve_exact("poisson", domain=domains[1], **stated, diffusion=lambda x, y: 1 + x).field,
    )
    plain = disol.solve_exact("poisson", domain=domains[0], **stated).case
    with pytest.raises(DisolError, match="Not all cases of this batch have diffusion of one shape"):
        Case.stack([alone[0].case, plain]).coefficient_values()


def test_curves_stay_where_only_fields_times_and_numbers_are_replaced():
    case = disol.draw("poisson", 3, 1, resolution=SIDE)
    batch = disol.solve_exact(case, source=[lambda x, y: x, lambda x, y: y], diffusion=2.0)
    assert batch.case.boundary == "true"
    assert np.array_equal(batch.field[0], disol.solve_exact(case, source=lambda x, y: x, diffusion=2.0).field)
    again = disol.solve_exact(batch.case, diffusion=lambda x, y: 1 + x)
    assert again.case.boundary == "true"
    held = case.terms["dirichlet"]
    assert disol.solve_exact(case, dirichlet=held).case.boundary == "edges"


def test_what_is_wrong_with_one_case_names_it():
    held = frame(3)
    inside = {**held, "dirichlet": np.eye(SIDE, k=2) * (np.arange(SIDE) == 5)}
    with pytest.raises(DisolError, match=r"^Case 1: The part of the domain .* is not held"):
        disol.solve_exact([Case.from_arrays("poisson", **each) for each in (held, inside)])
    thin = np.zeros((2, SIDE, SIDE))
    thin[0, 4:20, 2:22], thin[1, 8:10, 2:22] = 1, 1
    held, pulled = thin.copy(), thin.copy()
    held[:, :, 3:], pulled[:, :, :21] = 0, 0
    terms = {"domain": thin, "fix_x": held, "fix_y": held, "force_x": 0 * pulled, "force_y": pulled}
    with pytest.warns(UserWarning, match="^Case 1: 40 pixels of the domain are in walls thinner") as caught:
        disol.solve_exact("elasticity", **terms)
    assert [each.filename for each in caught] == [__file__]
    with pytest.warns(UserWarning, match="^Case 0 and 1 more: Poisson's ratio is 0.48"):
        disol.solve_exact("elasticity", **{name: value[[0, 0]] for name, value in terms.items()}, poisson_ratio=0.48)


def test_an_ill_conditioned_case_of_a_batch_is_told_by_its_number():
    domain, held = np.zeros((2, 10, 10))
    domain[1:-1, 1:-1], held[1:-1, 1] = 1, 1
    conductivity = np.ones((2, 10, 10))
    conductivity[1, 3:7, 3:7] = 1e10  # an island that hardly anything ties to the ground
    terms = {"domain": np.stack([domain, domain]), "dirichlet": held, "source": domain, "initial": domain}
    with pytest.warns(UserWarning, match="^Case 1: The system is ill-conditioned"):
        found = disol.solve_exact("heat", **terms, conductivity=conductivity)
    assert found.rounding_error[0] < 1e-11
    assert found.rounding_error[1] > 1e-6
    conductivity[1, 3:7, 3:7] = 1e14
    with pytest.raises(DisolError, match=r"^Case 1: The system is too ill-conditioned"):
        disol.solve_exact("heat", **terms, conductivity=conductivity)


def test_a_batch_is_solved_without_torch():
    code = (
        "import sys, disol; cases = [disol.draw('poisson', 3, i, resolution=16) for i in range(2)]; "
        "disol.solve_exact(cases); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
