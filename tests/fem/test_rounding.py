"""Exact solutions are exact: what rounding does to them is estimated, told, and refused where it is too much."""

import warnings
from decimal import Decimal, localcontext
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import sparse

import disol
from disol.fem import ELEMENTS, System, assemble, forms, free_unknowns
from disol.fem.rounding import LARGEST_ERROR, NOTABLE_ERROR, Refinement, last_places, report, sensitivity, settle
from disol.fem.solve import DirectSolver
from disol.grid import CORNERS
from disol.problems.conventions import CONVENTIONS

EVERY_PROBLEM = [
    (name, conventions) for name, problem in disol.PROBLEMS.items() for conventions in problem.known_conventions
]
EPSILON = np.finfo(float).eps
DIGITS = 80


@pytest.mark.parametrize("side", [3, 64, 129])
@pytest.mark.parametrize("element", ["q1", "p1"])
@pytest.mark.parametrize(("problem", "conventions"), EVERY_PROBLEM)
def test_motions_without_strain_feel_no_force_to_the_last_bit(problem, conventions, element, side):
    raw = disol.PROBLEMS[problem].element_matrix(ELEMENTS[element](1 / side), CONVENTIONS[conventions])
    settled = settle(raw)
    assert np.abs(settled - raw).max() <= 32 * EPSILON * np.abs(raw).max()
    assert np.array_equal(settle(settled), settled)
    exact = [[Fraction(entry) for entry in row] for row in settled.tolist()]
    if problem != "heat":
        components = len(raw) // 4
        for component in range(components):
            assert all(sum(row[component::components]) == 0 for row in exact)
        if components == 2:
            rotation = [entry for row, column in CORNERS for entry in (-row, column)]
            assert all(sum(a * b for a, b in zip(row, rotation, strict=True)) == 0 for row in exact)
    if np.abs(raw - raw.T).max() < 1e-15 * np.abs(raw).max():
        assert np.array_equal(settled, settled.T)
    # The diagonal of a node is the largest sum of entries of its four pixels.
    assert 4 * Fraction(float(settled.max())) == Fraction(4 * float(settled.max()))
    assert sum(exact[corner][corner] for corner in range(4)) == Fraction(float(np.trace(settled[:4, :4])))


def test_what_a_form_feels_is_left_to_it():
    element = ELEMENTS["q1"](1 / 8)
    reacting = forms.diffusion(element) + 1e-9 * forms.mass(element)
    assert settle(reacting).sum() == pytest.approx(1e-9 / 64, rel=1e-4)


@pytest.mark.parametrize(("size", "happens"), [(1e-310, "underflows"), (np.inf, "overflows"), (np.nan, "overflows")])
def test_element_matrices_that_are_no_doubles_are_told_so(size, happens):
    with pytest.raises(disol.DisolError, match=f"element matrix {happens} in double precision. Use other units"):
        settle(np.full((4, 4), size))


@pytest.mark.parametrize("ratio", [0.3, -0.9999, -0.9999999])
def test_the_resistance_to_a_change_of_volume_is_known_to_the_last_place_of_the_largest_stiffness(ratio):
    stiffness = forms.hooke(1.0, ratio, "stress")
    exact = 1 / (1 - Fraction(ratio))
    assert abs(Fraction(stiffness[0, 0]) + Fraction(stiffness[0, 1]) - exact) <= 4 * EPSILON * stiffness.max()


def test_last_places_are_changed_where_diffusion_is_small_beside_advection():
    element = ELEMENTS["q1"](1 / 8)

    def flow(diffusion):
        return settle(diffusion * forms.diffusion(element) + forms.advection(element, (0.8, -0.6)))

    delicate = flow(1e-6)
    changes = last_places(delicate)
    assert len(changes) == 4
    assert np.abs(changes.sum(axis=2)).max() < 1e-3 * np.abs(changes).max()  # constants feel next to none of it
    assert EPSILON < np.abs(changes).max() / np.abs(delicate).max() < 100 * EPSILON
    assert not len(last_places(flow(1.0)))
    assert not len(last_places(settle(forms.diffusion(element))))


def test_residuals_are_known_to_more_digits_than_doubles_have():
    rng = np.random.default_rng(0)
    case = disol.draw("elasticity", 0, 0, resolution=16, conventions="paper")
    system = case.system()
    matrix = assemble(system.mask, np.ldexp(system.element_matrix, -10), system.free)
    solver, solution = DirectSolver(matrix), rng.standard_normal(matrix.shape[0]) * 10.0 ** rng.integers(-9, 1)
    load = matrix @ solution  # to rounding
    found = solver.residual(solution, load)
    rows, dense = rng.choice(len(load), 8, replace=False), matrix.toarray()
    exact = np.array(
        [
            float(
                Fraction(load[row])
                - sum(Fraction(a) * Fraction(u) for a, u in zip(dense[row], solution, strict=True) if a)
            )
            for row in rows
        ]
    )
    scale = np.abs(dense).sum(axis=1).max() * np.abs(solution).max()
    assert np.abs(load - matrix @ solution).max() == 0  # what a double makes of it
    assert np.abs(exact).max() > 1e-18 * scale
    assert np.abs(found[rows] - exact).max() < 2.0**-75 * scale


def solve_precisely(system):
    """Solve the system of a few unknowns with 80 digits, by elimination with pivoting."""
    unknowns = free_unknowns(system.free)
    matrix = assemble(system.mask, system.element_matrix, system.free).toarray()
    load = system.load.reshape(-1)[unknowns]
    with localcontext(prec=DIGITS):
        rows = [
            [Decimal(entry) for entry in (*row, own)] for row, own in zip(matrix.tolist(), load.tolist(), strict=True)
        ]
        for place in range(len(rows)):
            pivot = max(range(place, len(rows)), key=lambda row: abs(rows[row][place]))
            rows[place], rows[pivot] = rows[pivot], rows[place]
            filled = [column for column in range(place, len(rows) + 1) if rows[place][column]]
            for row in rows[place + 1 :]:
                if row[place]:
                    factor = row[place] / rows[place][place]
                    for column in filled:
                        row[column] -= factor * rows[place][column]
        found = [Decimal(0)] * len(rows)
        for place in reversed(range(len(rows))):
            known = sum((rows[place][column] * found[column] for column in range(place + 1, len(rows))), Decimal(0))
            found[place] = (rows[place][-1] - known) / rows[place][place]
    return unknowns, found


def true_error(nodes, unknowns, exact):
    """Return the largest error relative to the largest value."""
    with localcontext(prec=DIGITS):
        largest = max(abs(value) for value in exact)
        found = nodes.reshape(-1)[unknowns].tolist()
        gaps = (abs(Decimal(value) - own) for value, own in zip(found, exact, strict=True))
        return float(max(gaps) / largest) if largest else 0.0


@st.composite
def hostile_cases(draw):
    """Draw a snake of single pixels, held at one end, with a flow of any strength or an elastic material."""
    rows, columns = draw(st.sampled_from([(1, 16), (1, 24), (1, 32), (2, 7), (4, 5), (6, 4)]))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    path = [(0, 0)]
    domain = np.zeros((rows, columns), bool)
    domain[0, 0] = True
    for _ in range(32):
        row, column = path[-1]
        around = [(row, column + 1), (row + 1, column), (row - 1, column), (row, column - 1)]
        ahead = [
            (row, column)
            for row, column in around
            if 0 <= row < rows and 0 <= column < columns and domain[max(row - 1, 0) : row + 2, column].sum() < 2
            if not domain[row, column]
        ]
        if not ahead:
            break
        path.append(ahead[rng.integers(len(ahead))] if rng.random() < 0.5 else ahead[0])
        domain[path[-1]] = True
    held = np.zeros_like(domain)
    held[path[-1]] = True
    loads = (
        rng.standard_normal((2, rows, columns))
        * domain
        * (rng.random((rows, columns)) < draw(st.sampled_from([0.2, 1.0])))
    )
    conventions = draw(st.sampled_from(["paper", "published"]))
    if draw(st.booleans()):
        numbers = {"poisson_ratio": draw(st.sampled_from([0.3, 0.499, -0.9]))}
        terms = {"fix_x": held, "fix_y": held, "force_x": loads[0], "force_y": loads[1]}
        return {"problem": "elasticity", "domain": domain, "conventions": conventions, **terms, **numbers}
    angle, speed = (
        draw(st.sampled_from([0.0, 1.0])),
        rows * draw(st.sampled_from([1.0, 1.5, 2.5, 3.5, 6.0])),
    )
    numbers = {"velocity": (speed * np.cos(angle), speed * np.sin(angle)), "diffusion": 1.0}
    terms = {"dirichlet": held, "source": loads[0]}
    return {"problem": "advection-diffusion-high", "domain": domain, "conventions": conventions, **terms, **numbers}


@settings(max_examples=30)
@given(hostile_cases())
def test_no_solution_is_further_off_than_it_says(data):
    case = disol.Case.from_arrays(**data)
    system = case.system()
    assume(system.free.sum() <= 70)
    nodes, error = system.solve_and_estimate()
    if not error <= LARGEST_ERROR:
        with pytest.raises(disol.DisolError, match="ill-conditioned"):
            system.solve()
        return
    assert true_error(nodes, *solve_precisely(system)) <= 10 * error
    assert error <= NOTABLE_ERROR  # refinement either helps or does not
    assert disol.solve_exact(case).rounding_error == error


@pytest.mark.parametrize(
    ("columns", "speed", "conventions"),
    [(20, 1.0, "paper"), (12, 2.5, "paper"), (28, 2.0, "published"), (16, 1.5, "paper"), (32, 3.5, "published")],
)
def test_flows_of_which_every_step_multiplies_errors_are_solved_as_well_as_they_say(columns, speed, conventions):
    """Condition numbers from 1e9 to 1e17; beyond 1e16 most are refused."""
    row = np.ones((1, columns))
    data = {"domain": row, "dirichlet": np.eye(1, columns, columns - 1), "source": np.cos(np.arange(columns))[None]}
    numbers = {"velocity": (speed, -0.5), "diffusion": 1.0}
    case = disol.Case.from_arrays("advection-diffusion-high", **data, **numbers, conventions=conventions)
    exact = disol.solve_exact(case)
    assert true_error(exact.nodes, *solve_precisely(case.system())) <= 10 * exact.rounding_error
    assert exact.rounding_error <= NOTABLE_ERROR


def test_a_flow_that_doubles_cannot_follow_is_refused():
    held = np.eye(1, 20, 19)
    data = {"domain": np.ones((1, 20)), "dirichlet": held, "source": np.ones((1, 20))}
    with pytest.raises(
        disol.DisolError, match=r"too ill-conditioned for double precision.*beyond recognition"
    ) as raised:
        disol.solve_exact("advection-diffusion-high", **data, conventions="paper")
    assert "\n" not in str(raised.value)
    # Half as long it is solved to 14 digits, although the solution grows by nine orders of magnitude on its way.
    half = {name: array[:, 10:] for name, array in data.items()}
    case = disol.Case.from_arrays("advection-diffusion-high", **half, conventions="paper")
    exact = disol.solve_exact(case)
    assert exact.amplitude > 1e7
    assert true_error(exact.nodes, *solve_precisely(case.system())) < 1e-14


def hanging(side):
    """A body that hangs on a corridor one pixel wide, winding through the whole grid, and is pulled at its end."""
    domain = np.zeros((side, side), bool)
    domain[0::2] = True
    for turn, row in enumerate(range(1, side - 1, 2)):
        domain[row, -1 if turn % 2 == 0 else 0] = True
    held, pulled = np.zeros((2, side, side))
    held[0, 0] = pulled[side - 1, -1 if side // 2 % 2 == 0 else 0] = 1
    return disol.Case.from_arrays(
        "elasticity", domain=domain, fix_x=held, fix_y=held, force_x=0 * pulled, force_y=pulled, conventions="paper"
    )


def test_a_corridor_of_single_pixels_is_solved_to_rounding():
    system = hanging(27).system()
    unknowns = free_unknowns(system.free)
    matrix, load = assemble(system.mask, system.element_matrix, system.free), system.load.reshape(-1)[unknowns]
    nodes, error = system.solve_and_estimate()
    rough = DirectSolver(matrix).factors.solve(load)
    # Refined with residuals of 60 digits until nothing changes.
    entries = matrix.tocoo()
    exact = [Decimal(0)] * len(load)
    factors = sparse.linalg.splu(matrix)
    with localcontext(prec=60):
        values = [Decimal(value) for value in entries.data.tolist()]
        for _ in range(6):
            residual = [Decimal(value) for value in load.tolist()]
            for row, column, value in zip(entries.row.tolist(), entries.col.tolist(), values, strict=True):
                residual[row] -= value * exact[column]
            correction = factors.solve(np.array([float(value) for value in residual]))
            exact = [value + Decimal(own) for value, own in zip(exact, correction.tolist(), strict=True)]
    assert np.abs(correction).max() < 1e-20 * float(max(map(abs, exact)))
    assert true_error(nodes, unknowns, exact) <= 10 * error
    assert error < 1e-13
    plain = np.zeros(system.free.size)
    plain[unknowns] = rough
    # Without refinement it is not, although its backward error is perfect.
    assert true_error(plain, unknowns, exact) > 1e-9
    assert DirectSolver(matrix).backward_error(rough, load) < 1e-16


def exact_elasticity(stiffness):
    """∫ ε(Nᵢ) : C : ε(Nⱼ) over a square, in fractions."""
    mass, slope = [[Fraction(1, 3), Fraction(1, 6)], [Fraction(1, 6), Fraction(1, 3)]], [-1, 1]
    direct, mixed, shear = (Fraction(stiffness[place]) for place in ((0, 0), (0, 1), (2, 2)))
    matrix = [[Fraction(0)] * 8 for _ in range(8)]
    for i, (row, column) in enumerate(CORNERS):
        for j, (other_row, other_column) in enumerate(CORNERS):
            along_x = slope[column] * slope[other_column] * mass[row][other_row]
            along_y = slope[row] * slope[other_row] * mass[column][other_column]
            x_y, y_x = Fraction(slope[column] * slope[other_row], 4), Fraction(slope[row] * slope[other_column], 4)
            matrix[2 * i][2 * j] = direct * along_x + shear * along_y
            matrix[2 * i][2 * j + 1] = mixed * x_y + shear * y_x
            matrix[2 * i + 1][2 * j] = mixed * y_x + shear * x_y
            matrix[2 * i + 1][2 * j + 1] = direct * along_y + shear * along_x
    return matrix


@pytest.mark.parametrize("poisson_ratio", [0.3, -0.9, 0.49999, 0.4999999])
def test_rounding_the_element_matrix_is_part_of_the_estimate(poisson_ratio):
    case = disol.Case.from_arrays(hanging(5), poisson_ratio=poisson_ratio)
    system = case.system()
    exact = exact_elasticity(forms.hooke(case.problem.young, poisson_ratio, case.conventions.plane))
    assert np.abs(system.element_matrix - np.array(exact, dtype=float)).max() < 1e-14 * system.element_matrix.max()
    # What doubles leave of the exact matrix, as a second load that they leave of the first.
    unknowns, found = solve_precisely(system)
    numbers = np.full(system.free.size, -1)
    numbers[unknowns] = np.arange(len(unknowns))
    _, rows, columns = system.free.shape
    with localcontext(prec=DIGITS):
        load = [Decimal(0)] * len(unknowns)
        for row, column in np.argwhere(system.mask):
            local = [
                numbers[(component * rows + row + down) * columns + column + right]
                for down, right in CORNERS
                for component in (0, 1)
            ]
            for i, test in enumerate(local):
                for j, trial in enumerate(local):
                    if test >= 0 and trial >= 0:
                        gap = exact[i][j] - Fraction(float(system.element_matrix[i, j]))
                        load[test] -= Decimal(gap.numerator) / Decimal(gap.denominator) * found[trial]
    change = system.load.copy()
    change.reshape(-1)[unknowns] = [float(value) for value in load]
    changed = System(system.mask, system.element_matrix, system.free, change).solve()
    _, error = system.solve_and_estimate()
    assert np.abs(changed).max() <= 10 * error * float(max(map(abs, found)))
    assert error >= sensitivity(system.element_matrix)


def test_the_steps_of_a_transient_problem_are_no_further_off_than_they_say():
    domain, held = np.ones((1, 14)), np.eye(1, 14)
    for time_scale in (0.01, 1.0, 1e4, 1e9):
        data = {"domain": domain, "dirichlet": held, "source": domain, "initial": np.arange(14.0)[None] / 14}
        case = disol.Case.from_arrays("heat", **data, times=[20, 40], time_scale=time_scale, conventions="paper")
        system = case.system()
        nodes, error = system.solve_and_estimate([10, 20])
        unknowns = free_unknowns(system.free)
        element = ELEMENTS["q1"](1.0)
        with mpmath.workdps(40):
            mass, stiffness = (
                mpmath.matrix(assemble(system.mask, settle(form), system.free).toarray().tolist())
                for form in (forms.mass(element), forms.diffusion(element))
            )
            step = mpmath.mpf(2) * mpmath.mpf(time_scale)
            load = step * 3 * mpmath.matrix((system.load.reshape(-1)[unknowns] / (2 * time_scale * 3)).tolist())
            values = mpmath.matrix(system.initial.reshape(-1)[unknowns].tolist())
            largest = max(abs(value) for value in values)
            frames, inverse = {}, mpmath.inverse(mass + step * stiffness)
            for number in range(1, 21):
                values = inverse * (mass * values + load)
                largest, frames[number] = max(largest, *map(abs, values)), values
            gap = max(
                abs(mpmath.mpf(float(own)) - value)
                for frame, number in zip(nodes, (10, 20), strict=True)
                for own, value in zip(frame.reshape(-1)[unknowns], frames[number], strict=True)
            )
        assert float(gap / largest) <= 10 * error, time_scale
        assert error < 1e-11


def test_what_rounding_does_is_told_above_a_millionth_and_refused_above_a_hundredth():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        report(0.9e-6)
        report([0.0, 1e-7], first_case=0)
    with pytest.warns(UserWarning, match=r"^The system is ill-conditioned: .* by 3\.0e-05 of its largest value\.$"):
        report(3e-5)
    with pytest.warns(UserWarning, match=r"^Case 12: .* by 2\.0e-03 of its largest value \(1 other case.* 1e-06\)\.$"):
        report([0.0, 1e-5, 2e-3], first_case=10)
    with pytest.raises(disol.DisolError, match=r"^Case 11: .*may change the solution by 2\.0e-02 of its largest value"):
        report([1e-5, 2e-2], first_case=10)
    for hopeless in (1.5, np.inf, np.nan):
        with pytest.raises(disol.DisolError, match="beyond recognition"):
            report(hopeless)


def test_corrections_that_do_not_shrink_are_not_added():
    refinement = Refinement(np.array([1.0, 1.0, 1.0]), np.array([1e-3, 0.7, 1e-3]))
    assert refinement.accept(np.array([1e-3, 1e-9, np.nan]), np.ones(3)).tolist() == [True, False, False]
    assert refinement.error[0] == pytest.approx(1e-6, rel=0.01)
    assert refinement.error[1:].tolist() == [np.inf, np.inf]
    assert refinement.active.tolist() == [True, False, False]
    # The second one is no smaller: it is as large as what is left.
    assert not refinement.accept(np.array([0.9e-3, 0.0, 0.0]), np.ones(3)).any()
    assert refinement.error[0] == pytest.approx(1.8e-3)
    assert not refinement.active.any()
