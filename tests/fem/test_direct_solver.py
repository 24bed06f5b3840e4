"""Every solution of the reference solver is checked, and it leaves the threads of BLAS as they were."""

from threading import Barrier, Thread

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_info

from disol.fem.solve import DirectSolver, one_thread


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
@pytest.mark.parametrize("tiny", [1e-320, 1e-300])
def test_what_overflows_without_pivoting_is_solved_with_it(tiny):
    matrix, load = np.array([[tiny, 1.0], [1.0, tiny]]), np.array([1.0, 2.0])
    solver = DirectSolver(sparse.csc_array(matrix))
    assert not np.allclose(solver.factors.solve(load), [2.0, 1.0])
    assert np.allclose(solver.solve(load), [2.0, 1.0])


def test_the_transpose_is_solved_by_the_same_factors(monkeypatch):
    rng = np.random.default_rng(0)
    matrix = sparse.csc_array(rng.standard_normal((30, 30)) + 20 * np.eye(30))
    solver, known = DirectSolver(matrix), rng.standard_normal(30)
    monkeypatch.setattr("disol.fem.solve.factorise", None)
    assert np.allclose(solver.transposed().solve(matrix.T @ known), known, rtol=1e-13)
    assert np.allclose(solver.transposed().transposed().solve(matrix @ known), known, rtol=1e-13)


def test_a_transpose_that_needs_pivoting_is_factorised_anew():
    matrix, load = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [3.0, 1.0, 1e-300]]), np.array([1.0, 2.0, 3.0])
    solver = DirectSolver(sparse.csc_array(matrix + 1e-300 * np.eye(3)))
    with np.errstate(all="ignore"):
        assert np.allclose(matrix.T @ solver.transposed().solve(load), load)


def test_the_backward_error_of_no_number_is_none():
    solver = DirectSolver(sparse.csc_array(np.eye(2)))
    assert np.isnan(solver.backward_error(np.array([np.nan, 1.0]), np.ones(2)))
    assert solver.backward_error(np.zeros(2), np.zeros(2)) == 0


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_solutions_of_any_size_are_checked(size):
    solver = DirectSolver(sparse.csc_array(np.diag([1.0, 2.0])))
    load = size * np.ones(2)
    assert solver.backward_error(solver.solve(load), load) < 1e-15
    assert solver.backward_error(load, load) > 0.1


def threads_of_blas():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_limits_that_overlap_restore_what_was_there_before_the_first():
    first_is_in, second_is_in, first_is_out = Barrier(2), Barrier(2), Barrier(2)
    seen = []

    def first():
        with one_thread():
            seen.append(threads_of_blas())
            first_is_in.wait()
            second_is_in.wait()
        first_is_out.wait()

    before = threads_of_blas()
    if set(before) == {1}:
        pytest.skip("BLAS has one thread here anyway")
    thread = Thread(target=first)
    thread.start()
    first_is_in.wait()
    with one_thread():
        second_is_in.wait()
        first_is_out.wait()
    thread.join()
    assert set(seen[0]) == {1}
    assert threads_of_blas() == before


def test_a_limit_within_a_limit_ends_with_the_outer_one():
    before = threads_of_blas()
    with one_thread():
        with one_thread():
            pass
        assert set(threads_of_blas()) == {1}
    assert threads_of_blas() == before


def test_entries_that_rounding_has_left_out_are_part_of_solutions():
    """(A + R) u = b of matrices that doubles cannot add up."""
    matrix = sparse.csc_array(np.array([[1.0, -1.0], [-1.0, 1.0 + 2.0**-30]]))
    rest = sparse.csr_array(np.array([[2.0**-60, 0.0], [0.0, 0.0]]))
    solver = DirectSolver(matrix, rest)
    for each, expected in ((solver, 1.0), (solver.transposed(), 1.0)):
        found, error = each.solve_and_estimate(np.array([2.0**-60, 2.0**-30]))
        np.testing.assert_allclose(found, expected, rtol=1e-13)
        assert error < 1e-13
