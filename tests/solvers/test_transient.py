"""Batched backward Euler steps are those of the reference."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from solver_cases import relative_error

from disol import draw
from disol.fem import ELEMENTS, System, assemble, forms, free_unknowns
from disol.solvers import BatchSettings, Factors, from_system, solve_systems
from disol.solvers.batched import step_by_reference

STEPS = [0, 3, 25, 10]


@pytest.fixture(scope="module")
def heat():
    cases = [
        draw("heat", 2, index, resolution=32, shift="all" if index else None, conventions="paper") for index in range(3)
    ]
    systems = [case.system() for case in cases]
    return systems, np.stack([system.solve(STEPS) for system in systems])


def test_the_reference_steps_as_the_equation_says(heat):
    system = heat[0][1]
    matrices = [assemble(system.mask, matrix, system.free).toarray() for matrix in (system.element_matrix, MASS)]
    unknowns = free_unknowns(system.free)
    values, load = (array.reshape(-1)[unknowns] for array in (system.initial, system.load))
    for _ in range(3):
        values = np.linalg.solve(matrices[0], matrices[1] @ values + load)
    assert system.solve([3]).reshape(-1)[unknowns] == pytest.approx(values, rel=1e-9, abs=1e-14)


@pytest.mark.parametrize("settings", [BatchSettings(), BatchSettings(chunk=2), BatchSettings(precision=torch.float32)])
def test_frames_are_those_of_the_reference(heat, settings):
    systems, frames = heat
    evolution = solve_systems(System.stack(systems), STEPS, settings=settings)
    assert relative_error(evolution.frames, frames) < 1e-10
    assert evolution.backward_error.max() < 1e-14
    assert evolution.fallbacks == ()


def test_spoiled_steps_send_the_case_to_the_reference(heat, monkeypatch):
    systems, frames = heat
    exact = Factors.solve

    def spoiled(self, loads):
        nodes = exact(self, loads)
        nodes[2] = torch.nan
        return nodes

    monkeypatch.setattr(Factors, "solve", spoiled)
    evolution = solve_systems(System.stack(systems), STEPS)
    assert evolution.fallbacks == (2,)
    assert relative_error(evolution.frames, frames) < 1e-10
    assert evolution.backward_error.max() < 1e-13


MASS = forms.mass(ELEMENTS["q1"](1 / 32))


def test_the_reference_keeps_the_steps_asked_for_in_their_order(heat):
    systems, frames = heat
    operator, loads = from_system(System.stack(systems))
    start = torch.from_numpy(systems[1].initial)
    found, _ = step_by_reference(operator, 1, torch.from_numpy(MASS), loads[1], start, STEPS)
    assert relative_error(found[None], frames[1:2]) < 1e-14


def test_steps_before_the_first_are_refused(heat):
    systems, _ = heat
    for steps in ([], [-1]):
        with pytest.raises(ValueError, match="from 0 on"):
            solve_systems(System.stack(systems), steps)


def test_a_steady_system_has_one_frame(heat):
    steady = replace(heat[0][0], mass_matrix=None, initial=None)
    assert steady.solve().shape == (1, 1, 33, 33)
    assert relative_error(solve_systems(System.stack([steady])).frames[0], steady.solve()) < 1e-10


def test_what_rounding_does_to_steps_is_estimated_as_by_the_reference(heat):
    systems, _ = heat
    found = solve_systems(System.stack(systems), STEPS).rounding_error
    for system, error in zip(systems, found.tolist(), strict=True):
        assert error == pytest.approx(system.solve_and_estimate(STEPS)[1], rel=0.1)
        assert 1e-16 < error < 1e-12


@pytest.mark.parametrize("size", [1e-304, 1.0, 1e304])
def test_steps_of_any_size_are_those_of_the_reference(heat, size):
    systems = [replace(system, load=size * system.load, initial=size * system.initial) for system in heat[0]]
    found = solve_systems(System.stack(systems), STEPS).frames.numpy()
    assert relative_error(found / size, heat[1]) < 1e-10
    assert relative_error(systems[0].solve(STEPS) / size, heat[1][0]) < 1e-10


def test_a_step_that_is_no_double_is_told_so_by_its_number(heat):
    systems = System.stack(heat[0])
    systems.load[1] *= 1e-320
    systems.initial[1] *= 1e-320
    with pytest.raises(ValueError, match=r"^Case 1: The solution underflows"):
        solve_systems(systems, STEPS)
