"""Batched load vectors are those of `fem` and of the problems."""

import numpy as np
import pytest
import torch
from solver_cases import relative_error, system_of

from disol import draw
from disol.fem import ELEMENTS, forms
from disol.fem import loads as reference
from disol.fields import at_nodes, at_pixels
from disol.grid import nodes_touching
from disol.problems.elasticity import ELASTICITY
from disol.solvers import loads


def cases_of(problem, conventions="paper"):
    return [draw(problem, 5, index, resolution=24, conventions=conventions) for index in range(3)]


def stacked(arrays):
    return torch.from_numpy(np.stack(arrays))


@pytest.mark.parametrize("element", ["q1", "p1"])
@pytest.mark.parametrize("conventions", ["paper", "published"])
@pytest.mark.parametrize("problem", ["poisson", "advection-diffusion-low", "advection-diffusion-high", "heat"])
def test_source_loads_are_those_of_the_problem(problem, conventions, element):
    if problem == "heat" and conventions == "published":
        conventions = "paper"
    cases = cases_of(problem, conventions)
    discrete = ELEMENTS[element](1 / 24)
    masks = [case.terms["domain"] for case in cases]
    sources = [case.terms["source"] for case in cases]
    mask = stacked(masks)
    if problem == "poisson" and conventions == "published":
        values = [at_nodes(f, m, nodes_touching(m)) for f, m in zip(sources, masks, strict=True)]
        batched = loads.nodal_load(mask, stacked(values))
    else:
        upwind = conventions == "published" and problem != "heat"
        test = forms.upwind_test(discrete, cases[0].equation.velocity) if upwind else forms.galerkin_test(discrete)
        points = [[at_pixels(f, m, *p) for p in discrete.positions] for f, m in zip(sources, masks, strict=True)]
        batched = loads.consistent_load(discrete, test, mask, stacked([np.stack(values) for values in points]))
    expected = np.stack([system_of(case, element).load[0] for case in cases])
    if problem == "heat":
        batched *= cases[0].equation.step * cases[0].equation.time_scale * cases[0].equation.source_strength
    assert relative_error(batched, expected) < 1e-12


def test_sources_that_are_constant_on_pixels_need_no_quadrature_points():
    case = cases_of("poisson")[0]
    element, domain = ELEMENTS["q1"](1 / 24), case.terms["domain"]
    test = forms.upwind_test(element, (0.5, -1.0))
    values = np.random.default_rng(0).random(domain.shape)
    batched = loads.consistent_load_of_pixels(element, test, stacked([domain]), stacked([values]))
    assert relative_error(batched[0], reference.consistent_load(element, test, domain, values)) < 1e-12


def test_nodal_values_of_pixel_sources_are_means_over_the_domain():
    case = cases_of("poisson")[0]
    domain = case.terms["domain"]
    values = np.random.default_rng(0).random(domain.shape)
    means = loads.node_means(stacked([values]), stacked([domain]))
    batched = loads.nodal_load(stacked([domain]), means)
    assert relative_error(batched[0], reference.nodal_load(domain, values)) < 1e-12


def test_boundary_forces_are_those_of_elasticity():
    cases = cases_of("elasticity")
    forces = [stacked([case.terms[name] for case in cases]) for name in ("force_x", "force_y")]
    batched = torch.stack([loads.boundary_force(force) for force in forces], dim=1) / 24
    assert cases[0].equation is ELASTICITY
    assert relative_error(batched, np.stack([system_of(case).load for case in cases])) < 1e-12
