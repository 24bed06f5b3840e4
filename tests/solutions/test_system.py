"""`disol.system`: the assembled system of a case is the one that `solve_exact` solves."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import spsolve

import disol
from disol.fem import ELEMENTS
from disol.grid import CORNERS, Grid

SIDE = 16
EVERY_PROBLEM = [
    (name, conventions) for name, problem in disol.PROBLEMS.items() for conventions in problem.known_conventions
]


def drawn(problem: str, conventions: str = "paper") -> disol.Case:
    return disol.draw(problem, 3, 1, resolution=SIDE, shift="all", conventions=conventions)


def assemble_pixel_by_pixel(case, element_matrix) -> np.ndarray:
    """Add the matrix of every pixel to that of all nodes, one entry at a time; keep the free unknowns."""
    free = case.problem.free_nodes(case.terms)
    components, rows, columns = free.shape
    whole = np.zeros((rows * columns * components,) * 2)
    for row, column in zip(*np.nonzero(case.domain), strict=True):
        nodes = [(row + down) * columns + column + right for down, right in CORNERS]
        local = [components * node + component for node in nodes for component in range(components)]
        whole[np.ix_(local, local)] += element_matrix
    kept = np.moveaxis(free, 0, -1).reshape(-1)
    return whole[np.ix_(kept, kept)]


@pytest.mark.parametrize("element", ["q1", "p1"])
@pytest.mark.parametrize(("problem", "conventions"), EVERY_PROBLEM)
def test_the_matrix_is_that_of_the_pixels_in_node_order(problem, conventions, element):
    case = drawn(problem, conventions)
    system = disol.system(case, element=element)
    stencil = case.problem.element_matrix(ELEMENTS[element](case.grid.h), case.conventions)
    assert isinstance(system.matrix, sparse.csr_array)
    expected = assemble_pixel_by_pixel(case, stencil)
    assert np.abs(system.matrix.toarray() - expected).max() <= 1e-14 * np.abs(expected).max()


@pytest.mark.parametrize(("problem", "conventions"), EVERY_PROBLEM)
def test_unknowns_are_counted_row_by_row_and_component_by_component(problem, conventions):
    case = drawn(problem, conventions)
    unknowns = disol.system(case).unknowns
    components, _, columns = case.problem.free_nodes(case.terms).shape
    numbers = (unknowns[:, 1] * columns + unknowns[:, 2]) * components + unknowns[:, 0]
    assert (np.diff(numbers) > 0).all()
    assert case.problem.free_nodes(case.terms)[tuple(unknowns.T)].all()
    assert len(unknowns) == case.problem.free_nodes(case.terms).sum()


@pytest.mark.parametrize(("problem", "conventions"), [each for each in EVERY_PROBLEM if each[0] != "heat"])
def test_solving_the_matrix_reproduces_the_exact_solution(problem, conventions):
    case = drawn(problem, conventions)
    system, exact = disol.system(case), disol.solve_exact(case)
    solution = spsolve(system.matrix.tocsc(), system.load)
    assert np.abs(system.to_nodes(solution) - exact.nodes).max() < 1e-9 * np.abs(exact.nodes).max()
    assert np.array_equal(system.to_vector(system.to_nodes(solution)), solution)
    for values in (exact.nodes, system.to_vector(exact.nodes)):
        assert np.linalg.norm(system.residual(values)) < 1e-10 * np.linalg.norm(system.load)
    assert np.array_equal(system.residual(0 * solution), system.load)
    assert system.mass is None


@pytest.mark.parametrize("problem", ["poisson", "elasticity"])
def test_the_energy_of_a_solution_is_half_the_work_of_its_load_and_the_least_of_all(problem):
    case = drawn(problem)
    system, exact = disol.system(case), disol.solve_exact(case)
    energy = system.energy(exact.nodes)
    assert energy == pytest.approx(0.5 * system.load @ system.to_vector(exact.nodes), rel=1e-9)
    assert energy > 0
    other = system.to_vector(exact.nodes) + np.random.default_rng(0).standard_normal(len(system.load))
    assert system.energy(other) - system.load @ other > -energy


def test_the_energy_of_poisson_is_that_of_its_gradient():
    """U = x (1 − x) / 2 solves −ΔU = 1 between two held sides: ½ ∫ |∇U|² = 1/24."""
    side = 64
    domain, held = np.ones((side, side)), np.zeros((side, side))
    held[:, [0, -1]] = 1  # a held pixel holds the nodes at both of its sides
    system = disol.system("poisson", domain=domain, dirichlet=held, source=np.ones((side, side)), conventions="paper")
    exact = disol.solve_exact(
        "poisson", domain=domain, dirichlet=held, source=np.ones((side, side)), conventions="paper"
    )
    width = 1 - 2 / side
    assert system.energy(exact.nodes) == pytest.approx(width**3 / 24, rel=1e-3)


def test_a_transient_system_is_one_step_of_backward_euler():
    case = disol.Case.from_arrays(drawn("heat"), times=[0, 2, 4])
    system, exact = disol.system(case), disol.solve_exact(case)
    vectors = [system.to_vector(frame) for frame in exact.nodes]
    for before, after in pairwise(vectors):
        stepped = spsolve(system.matrix.tocsc(), system.mass @ before + system.load)
        assert np.abs(stepped - after).max() < 1e-10 * np.abs(after).max()


def test_data_by_name_and_numbers_of_the_equation_are_those_of_solve_exact():
    case = drawn("poisson")
    given = disol.system("poisson", **case.terms, conventions="paper")
    assert np.array_equal(given.matrix.toarray(), disol.system(case).matrix.toarray())
    assert disol.system("poisson", **case.terms, diffusion=3.0, conventions="paper").matrix.toarray() == pytest.approx(
        3 * given.matrix.toarray()
    )
    published = disol.system("poisson", **case.terms, conventions="published")
    assert not np.allclose(published.load, given.load)


def test_a_matrix_that_overflows_is_told_so():
    case = disol.Case.from_arrays(drawn("poisson"), diffusion=1e308)
    with pytest.raises(disol.DisolError, match=r"matrix overflows in double precision\. Use other units"):
        disol.system(case).matrix  # noqa: B018


def test_a_system_is_shown_in_a_line():
    assert repr(disol.system(drawn("elasticity"))).startswith("LinearSystem(")
    assert repr(disol.system(drawn("elasticity"))).endswith(f"2 per node of {SIDE + 1} x {SIDE + 1})")


def test_a_batch_has_no_one_system():
    batch = disol.Case.stack([drawn("poisson")] * 2)
    with pytest.raises(disol.DisolError, match=r"A system is for one case, got a batch of 2\. Pass one of them\."):
        disol.system(batch)
    with pytest.raises(disol.DisolError, match="Unknown element 'q2'"):
        disol.system(batch[0], element="q2")


def test_values_of_pixels_are_not_taken_for_those_of_nodes():
    case = drawn("poisson")
    system, exact = disol.system(case), disol.solve_exact(case)
    for values in (exact.field, exact.nodes[None], system.load[1:]):
        with pytest.raises(disol.DisolError, match=r"or nodal values \(1, 17, 17\), got shape"):
            system.residual(values)


@pytest.mark.parametrize("problem", ["poisson", "advection-diffusion-low", "advection-diffusion-high"])
def test_a_weight_makes_the_matrix_symmetric_but_for_the_discretisation(problem):
    def asymmetry(side, weighted):
        case = disol.draw(problem, 3, 1, resolution=side, conventions="paper")
        system = disol.system(case)
        weight = system.to_vector(case.problem.symmetriser(case.grid)[None]) if weighted else np.ones(len(system.load))
        matrix = sparse.diags_array(weight) @ system.matrix
        # In the sense of smooth functions: entries cancel to the order of the element.
        x, y = (np.broadcast_to(each, (side + 1, side + 1))[None] for each in case.grid.node_positions())
        left, right = (system.to_vector(each) for each in (np.sin(3 * x) * y, np.cos(2 * y - x)))
        return abs(left @ (matrix @ right) - right @ (matrix @ left)) / (weight.max() * abs(left @ (matrix @ right)))

    if problem == "poisson":
        assert asymmetry(32, False) < 1e-12
        assert asymmetry(32, True) < 1e-12
    else:
        assert asymmetry(64, True) < 0.05 * asymmetry(64, False)
        assert asymmetry(64, True) < 0.6 * asymmetry(32, True)


def test_the_weight_of_a_fast_flow_is_a_number_everywhere():
    fast = replace(disol.PROBLEMS["advection-diffusion-high"], diffusion=1e-9)
    weight = fast.symmetriser(Grid(16, 16))
    assert weight.max() == 1
    assert weight.min() > 1e-14
