"""Batched backward Euler steps are those of the reference."""

import numpy as np
import pytest
import torch
from solver_cases import relative_error, system_of

from disol import draw
from disol.fem import ELEMENTS, backward_euler, forms
from disol.solvers import BatchSettings, Factors, from_systems, step_systems
from disol.solvers.transient import step_by_reference

STEPS = [0, 3, 25, 10]
MASS = forms.mass(ELEMENTS["q1"](1 / 32))


@pytest.fixture(scope="module")
def heat():
    cases = [draw("heat", 2, index, resolution=32, shift="all" if index else None) for index in range(3)]
    systems = [system_of(case) for case in cases]
    initial = [case.equation.initial_nodes(case.terms) for case in cases]
    frames = [
        np.stack(list(backward_euler(system, MASS, start, 25)))[STEPS]
        for system, start in zip(systems, initial, strict=True)
    ]
    return systems, initial, np.stack(frames)


@pytest.mark.parametrize("settings", [BatchSettings(), BatchSettings(chunk=2), BatchSettings(precision=torch.float32)])
def test_frames_are_those_of_the_reference(heat, settings):
    systems, initial, frames = heat
    evolution = step_systems(systems, MASS, initial, STEPS, settings=settings)
    assert relative_error(evolution.frames, frames) < 1e-10
    assert evolution.backward_error.max() < 1e-14
    assert evolution.fallbacks == ()


def test_spoiled_steps_send_the_case_to_the_reference(heat, monkeypatch):
    systems, initial, frames = heat
    exact = Factors.solve

    def spoiled(self, loads):
        nodes = exact(self, loads)
        nodes[2] = torch.nan
        return nodes

    monkeypatch.setattr(Factors, "solve", spoiled)
    evolution = step_systems(systems, MASS, initial, STEPS)
    assert evolution.fallbacks == (2,)
    assert relative_error(evolution.frames, frames) < 1e-10
    assert evolution.backward_error.max() < 1e-13


def test_the_reference_keeps_the_steps_asked_for_in_their_order(heat):
    systems, initial, frames = heat
    operator, loads = from_systems(systems, "cpu")
    found = step_by_reference(operator, 1, torch.from_numpy(MASS), loads[1], torch.from_numpy(initial[1]), STEPS)
    assert relative_error(found[None], frames[1:2]) < 1e-14


def test_steps_before_the_first_are_refused(heat):
    systems, initial, _ = heat
    for steps in ([], [-1]):
        with pytest.raises(ValueError, match="from 0 on"):
            step_systems(systems, MASS, initial, steps)


def test_every_system_needs_an_initial_field(heat):
    systems, initial, _ = heat
    with pytest.raises(ValueError, match="got 1 for 3 systems"):
        step_systems(systems[:3], MASS, initial[:1], [1])
