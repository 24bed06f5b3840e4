"""Batches are solved in chunks that fit, every solution is checked, and none is silently kept."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from solver_cases import drawn_systems, operator_of, poisson_system, relative_error, serpentine

from disol import Case
from disol.fem import DirectSolver, System, assemble, free_unknowns, solve
from disol.fem.solve import factorise
from disol.solvers import BatchSettings, Factors, memory, solve_batch, solve_systems
from disol.solvers import factorise as factorise_batch
from disol.solvers.batched import solve_by_reference
from disol.solvers.nested_dissection import bytes_per_case
from disol.solvers.operator import DiscreteOperator


def spoil(monkeypatch, change):
    """Let the direct solver return wrong values for case 1."""
    exact = Factors.solve

    def spoiled(self, loads):
        nodes = exact(self, loads)
        if len(nodes) > 1:
            nodes[1] = change(nodes[1])
        return nodes

    monkeypatch.setattr(Factors, "solve", spoiled)


@pytest.mark.parametrize("precision", [torch.float64, torch.float32])
@pytest.mark.parametrize("problem", ["poisson", "advection-diffusion-high", "elasticity"])
def test_solutions_are_exact_and_proved_to_be(problem, precision):
    systems = drawn_systems(problem, range(4), shift="all")
    solution = solve_systems(System.stack(systems), settings=BatchSettings(precision=precision))
    assert relative_error(solution.frames[:, 0], np.concatenate([system.solve() for system in systems])) < 1e-9
    assert solution.frames[:, 0].dtype == torch.float64
    assert solution.backward_error.max() < 1e-15
    assert solution.fallbacks == ()


@pytest.mark.parametrize("chunk", [1, 2, 4])
def test_chunks_change_nothing(chunk):
    operator, loads = operator_of(drawn_systems("elasticity", range(5)))
    whole = solve_batch(operator, loads, BatchSettings(chunk=5))
    pieces = solve_batch(operator, loads, BatchSettings(chunk=chunk))
    assert relative_error(pieces.nodes, whole.nodes.numpy()) < 1e-10


def test_no_load_gives_no_solution():
    operator, loads = operator_of(drawn_systems("elasticity"))
    loads[1] = 0
    solution = solve_batch(operator, loads)
    assert not solution.nodes[1].any()
    assert solution.backward_error[1] == 0
    assert solution.nodes[0].any()


@pytest.mark.parametrize("change", [lambda u: u + torch.nan, torch.ones_like], ids=["nan", "wrong"])
def test_spoiled_solution_is_replaced_by_the_reference_and_counted(monkeypatch, change):
    systems = drawn_systems("poisson")
    spoil(monkeypatch, change)
    solution = solve_systems(System.stack(systems))
    assert solution.fallbacks == (1,)
    assert relative_error(solution.frames[:, 0], np.concatenate([system.solve() for system in systems])) < 1e-9
    assert solution.backward_error.max() < 1e-13


def test_slightly_spoiled_solution_is_refined(monkeypatch):
    systems = drawn_systems("poisson")
    spoil(monkeypatch, lambda u: 1.001 * u)
    solution = solve_systems(System.stack(systems))
    assert solution.fallbacks == ()
    assert relative_error(solution.frames[:, 0], np.concatenate([system.solve() for system in systems])) < 1e-9


def test_a_case_beyond_help_does_not_keep_the_others_from_being_refined(monkeypatch):
    systems = drawn_systems("poisson", range(4))
    exact = Factors.solve

    def spoiled(self, loads):
        nodes = 1.001 * exact(self, loads)
        nodes[1] = 1.0
        return nodes

    monkeypatch.setattr(Factors, "solve", spoiled)
    solution = solve_systems(System.stack(systems))
    assert solution.fallbacks == (1,)
    assert solution.backward_error.max() < 1e-13


def test_several_loads_are_checked_together():
    operator, loads = operator_of(drawn_systems("poisson"))
    solution = solve_batch(operator, torch.stack([loads, loads.flip(-2)], dim=-1))
    assert solution.backward_error.shape == (3,)
    assert relative_error(solution.nodes[..., 0], solve_batch(operator, loads).nodes.numpy()) < 1e-10


def test_the_reference_factorises_once_for_all_loads_and_never_for_none(monkeypatch):
    operator, loads = operator_of(drawn_systems("poisson"))
    factorised = []

    def factorise_and_count(matrix, pivot):
        factorised.append(pivot)
        return factorise(matrix, pivot)

    monkeypatch.setattr(solve, "factorise", factorise_and_count)
    several = torch.stack([loads[1], torch.zeros_like(loads[1]), loads[1].flip(-2)], dim=-1)
    found, error = solve_by_reference(operator, 1, several)
    assert 0 < error < 1e-14
    assert factorised == [False]
    assert not found[..., 1].any()
    for column in (0, 2):
        assert relative_error(found[..., column], operator.system(1, several[..., column]).solve()[0]) < 1e-14
    assert not solve_by_reference(operator, 1, torch.zeros_like(several))[0].any()
    assert len(factorised) == 3


def test_singular_case_is_an_error_that_names_the_boundary_conditions():
    mask = np.zeros((8, 8), dtype=bool)
    mask[:4] = True
    system = poisson_system(mask, dirichlet=mask & (np.arange(8) == 0))
    system.free[0, 8, 8] = True
    system.load[0, 8, 8] = 1.0
    with pytest.raises(ValueError, match="boundary conditions"):
        solve_systems(System.stack([system]))


def test_case_that_does_not_fit_is_one_clear_error(monkeypatch):
    monkeypatch.setattr(memory, "free_bytes", lambda device: 1_000_000)
    with pytest.raises(ValueError, match=r"must fit into .* GiB .* needs about .* GiB\. Lower the resolution"):
        solve_systems(System.stack(drawn_systems("elasticity")))


def test_chunk_grows_with_the_memory_there_is(monkeypatch):
    operator, _ = operator_of(drawn_systems("poisson"))
    needed = bytes_per_case(operator, torch.float64)
    for cases in (1, 3, 10):
        monkeypatch.setattr(memory, "free_bytes", lambda device, cases=cases: 1.5 * cases * needed)
        assert memory.cases_at_once(needed, torch.device("cpu")) == max(1, int(cases * 1.05))


@pytest.mark.parametrize("wrong", [{"chunk": 0}, {"precision": torch.float16}])
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(ValueError, match="must be"):
        BatchSettings(**wrong)


def test_memory_of_the_host_is_what_linux_calls_available(monkeypatch, tmp_path):
    told = tmp_path / "meminfo"
    told.write_text("MemTotal:  8000 kB\nMemFree:  1000 kB\nMemAvailable:  5000 kB\n")
    monkeypatch.setattr(memory, "MEMORY_OF_LINUX", told)
    assert memory.free_bytes(torch.device("cpu")) == 5000 * 1024


def test_memory_of_the_host_is_guessed_where_no_one_tells(monkeypatch, tmp_path):
    def unknown(name):
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(memory, "MEMORY_OF_LINUX", tmp_path / "nothing")
    pages = {"SC_PHYS_PAGES": 1000, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(memory.os, "sysconf", pages.__getitem__)
    assert memory.free_bytes(torch.device("cpu")) == 500 * 4096
    monkeypatch.setattr(memory.os, "sysconf", unknown)
    assert memory.free_bytes(torch.device("cpu")) == memory.ASSUMED_BYTES


@pytest.mark.parametrize("size", [1e-200, 1e170])
def test_errors_are_found_however_small_or_large_the_load(monkeypatch, size):
    operator, loads = operator_of(drawn_systems("poisson"))
    expected = solve_batch(operator, loads).nodes
    spoil(monkeypatch, lambda nodes: 3 * nodes)
    found = solve_batch(operator, size * loads)
    assert found.fallbacks == (1,)
    assert found.backward_error.max() < 1e-12
    assert relative_error(found.nodes / size, expected.numpy()) < 1e-9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda loads: loads[:2], r"must be \(3, 1, 33, 33\), of one case at least, got \(2, 1, 33, 33\)"),
        (lambda loads: loads[..., 1:], r"got \(3, 1, 33, 32\)"),
        (lambda loads: loads.index_fill(0, torch.tensor([1]), torch.nan), "that of case 1 is not"),
    ],
    ids=["fewer", "of another grid", "not finite"],
)
def test_loads_that_do_not_fit_are_refused(change, message):
    operator, loads = operator_of(drawn_systems("poisson"))
    with pytest.raises(ValueError, match=message):
        solve_batch(operator, change(loads))


def hostile_systems(side=33):
    """An elastic body on a corridor one pixel wide, beside one that is a block."""
    corridor, block = serpentine(side, side), np.ones((side, side), dtype=bool)
    held = np.zeros((side, side))
    held[0, 0] = 1
    pulled = np.roll(held, -1, axis=(0, 1))
    terms = {"fix_x": held, "fix_y": held, "force_x": pulled, "force_y": 2 * pulled}
    return [
        Case.from_arrays("elasticity", domain=domain, **terms, conventions="paper").system()
        for domain in (block, corridor)
    ]


@pytest.mark.parametrize("precision", [torch.float64, torch.float32])
def test_what_rounding_does_to_a_case_is_refined_away_and_estimated(precision):
    systems = hostile_systems()
    operator, loads = operator_of(systems)
    found = solve_batch(operator, loads, BatchSettings(precision=precision))
    assert found.rounding_error.max() < 1e-13
    for system, nodes, error in zip(systems, found.nodes.numpy(), found.rounding_error.tolist(), strict=True):
        reference, own_error = system.solve_and_estimate()
        assert np.abs(nodes - reference[0]).max() <= 10 * (error + own_error) * np.abs(reference).max()
    plain = factorise_batch(operator).solve(loads)
    assert relative_error(plain[1], found.nodes[1].numpy()) > 1e-10


@pytest.mark.parametrize("problem", ["poisson", "advection-diffusion-high", "elasticity"])
def test_what_is_well_conditioned_is_not_refined_and_its_error_still_bounded(problem, monkeypatch):
    systems = drawn_systems(problem, range(6), shift="broad")
    operator, loads = operator_of(systems)
    monkeypatch.setattr(DiscreteOperator, "precise_residual", None)
    found = solve_batch(operator, loads)
    assert found.rounding_error.max() < 1e-9
    for system, nodes, error in zip(systems, found.nodes.numpy(), found.rounding_error.tolist(), strict=True):
        (reference,), own_error = system.solve_and_estimate()
        assert np.abs(nodes - reference).max() <= (error + own_error) * np.abs(reference).max()


def test_a_precise_residual_is_that_of_the_reference_solver():
    system = drawn_systems("elasticity", [0], resolution=16)[0]
    operator, _ = operator_of([replace(system, element_matrix=system.element_matrix / 1024)])
    fields = operator.restrict(torch.randn(operator.free.shape, generator=torch.manual_seed(0), dtype=torch.float64))
    loads = operator.apply(fields)
    unknowns = free_unknowns(system.free)
    solver = DirectSolver(assemble(system.mask, system.element_matrix / 1024, system.free))
    vectors = [field.numpy().reshape(-1)[unknowns] for field in (fields, loads)]
    found = operator.precise_residual(fields, loads).numpy().reshape(-1)[unknowns]
    expected = solver.residual(*vectors)
    assert np.abs(expected).max() > 1e-17
    assert np.abs(found - expected).max() < 1e-22


def flow(*columns):
    """Strong flows through single rows of pixels that end so many pixels before the grid does."""
    domain, held = np.zeros((2, len(columns), 1, 20))
    for row, last in enumerate(columns):
        domain[row, 0, :last] = held[row, 0, last - 1] = 1
    return Case.from_arrays(
        "advection-diffusion-high", domain=domain, dirichlet=held, source=domain, conventions="paper"
    ).system()


def test_a_case_that_is_too_ill_conditioned_is_refused_by_its_number():
    assert solve_systems(flow(5, 10)).rounding_error.max() < 1e-9
    with pytest.raises(ValueError, match=r"^Case 2: The system is too ill-conditioned"):
        solve_systems(flow(5, 10, 20))
    with pytest.raises(ValueError, match=r"^Case 12: The system is too ill-conditioned"):
        solve_systems(flow(5, 10, 20), first_case=10)
    with pytest.raises(ValueError, match=r"^The system is too ill-conditioned"):
        solve_systems(flow(20), first_case=None)


@pytest.mark.parametrize(("size", "stiffness", "happens"), [(1e307, 1e-4, "over"), (1e-300, 1e9, "under")])
def test_a_solution_that_is_no_double_is_told_so_by_its_number(size, stiffness, happens):
    operator, loads = operator_of(drawn_systems("poisson", range(2)))
    loads[1] *= size
    with pytest.raises(ValueError, match=f"^Case 1: The solution {happens}flows: .* Use other units"):
        solve_batch(operator.with_matrix(stiffness * operator.element_matrix), loads)
