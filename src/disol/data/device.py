"""The batched exact solver as the back end of generation on a GPU."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from disol.data.backends import Solved
from disol.data.layout import Arrays
from disol.data.recipe import Recipe
from disol.fem import ELEMENTS, Element, forms
from disol.grid import Grid
from disol.problems.heat import HeatProblem
from disol.problems.problem import component_pattern
from disol.problems.table import find_conventions
from disol.solvers import DiscreteOperator, solve_batch, step_batch
from disol.solvers.loads import pixel_means

Nodes = Float[Tensor, "case *frame field rows columns"]
Pixels = Float[Tensor, "case *frame field height width"]


def solve_on(device: torch.device, recipe: Recipe, systems: Arrays) -> Solved:
    """Solve a chunk of discretised cases and normalise the solutions."""
    rules = find_conventions(recipe.conventions)
    element = ELEMENTS["q1"](Grid(recipe.resolution, recipe.resolution).h)
    matrix = torch.from_numpy(recipe.equation.element_matrix(element, rules)).to(device)
    domain, free, loads = (torch.from_numpy(systems[name]).to(device) for name in ("domain", "free", "load"))
    operator = DiscreteOperator(domain, free, matrix)
    if isinstance(recipe.equation, HeatProblem):
        initial = torch.from_numpy(systems["initial_nodes"]).to(device)
        return solve_heat(recipe, element, operator, loads, initial)
    solution = solve_batch(operator, loads)
    fields = pixel_means(solution.nodes) * domain[:, None]
    if recipe.equation.scales_fields_separately(rules):
        amplitude = fields.abs().amax(dim=(2, 3))
        pattern = component_pattern(fields, amplitude[..., None, None], domain[:, None])
    else:
        amplitude = fields.abs().amax(dim=(1, 2, 3))
        pattern = divide(fields, amplitude)
    return Solved(to_numpy(pattern.float()), to_numpy(amplitude), len(solution.fallbacks))


def solve_heat(recipe: Recipe, element: Element, operator: DiscreteOperator, loads: Nodes, initial: Nodes) -> Solved:
    """Step a chunk of cases through the stored times; the amplitude is max |U| over every step up to 20 s."""
    equation = recipe.equation
    assert isinstance(equation, HeatProblem)
    asked = equation.step_numbers(recipe.times)
    steps = equation.needed_steps(recipe.times)
    mass = torch.from_numpy(forms.mass(element)).to(loads)
    evolution = step_batch(operator, mass, loads, initial, steps)
    fields = pixel_means(evolution.frames) * operator.mask[:, None, None]
    amplitude = fields[:, : equation.trained_steps + 1].abs().amax(dim=(1, 2, 3, 4))
    pattern = divide(fields[:, [steps.index(step) for step in asked]], amplitude)
    return Solved(to_numpy(pattern.float()), to_numpy(amplitude), len(evolution.fallbacks))


def divide(fields: Pixels, amplitude: Float[Tensor, " case"]) -> Pixels:
    """U / amplitude, 0 where the amplitude is."""
    size = torch.where(amplitude > 0, amplitude, 1.0)
    return fields / size.reshape(*size.shape, *[1] * (fields.ndim - size.ndim))


def to_numpy(values: Tensor) -> np.ndarray:
    """Bring values back from the device."""
    return values.cpu().numpy()
