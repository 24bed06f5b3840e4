"""The assembled systems: patch tests, and agreement with scikit-fem on random domains."""

import numpy as np
import pytest
import skfem
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage, sparse
from scipy.sparse.linalg import spsolve
from skfem.helpers import dot, grad, sym_grad
from threadpoolctl import threadpool_info

import disol
from disol.fem import ELEMENTS, DirectSolver, System, assemble, forms, free_unknowns
from disol.fem.ordering import nested_dissection
from disol.grid import Grid, nodes_touching

VELOCITY = (0.5, -1.0)


def random_domain(seed: int, height: int = 11, width: int = 14) -> np.ndarray:
    noise = ndimage.gaussian_filter(np.random.default_rng(seed).standard_normal((height, width)), 1.0)
    return noise > np.quantile(noise, 0.35)


def random_pins(domain: np.ndarray, seed: int) -> np.ndarray:
    """Mark a few pixels, one at least on each part."""
    pins = domain & (np.random.default_rng(seed).random(domain.shape) < 0.08)
    labels, count = ndimage.label(domain)
    for part in range(1, count + 1):
        if not pins[labels == part].any():
            pins[tuple(np.argwhere(labels == part)[0])] = True
    return pins


def node_grid(domain: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, y = Grid(*domain.shape).node_positions()
    return np.broadcast_arrays(x, y)


def element_matrices(element):
    stiffness = forms.hooke(1e3, 0.3, "strain")
    return {
        "diffusion": forms.diffusion(element),
        "mass": forms.mass(element),
        "galerkin": forms.diffusion(element) + forms.advection(element, VELOCITY),
        "upwind": forms.advection(element, VELOCITY) + forms.streamline_diffusion(element, VELOCITY),
        "elasticity": forms.elasticity(element, stiffness),
    }


@pytest.mark.parametrize("name", ELEMENTS)
@given(seed=st.integers(0, 2**16))
def test_linear_fields_feel_no_force_inside_any_domain(name, seed):
    domain = random_domain(seed)
    element = ELEMENTS[name](Grid(*domain.shape).h)
    inside = ~nodes_touching(~np.pad(domain, 1))[1:-1, 1:-1]
    x, y = node_grid(domain)
    fields = {"diffusion": [[2 * x - 3 * y + 1]], "elasticity": [[2 * x - y, 0.5 * x + 3 * y], [x, 1 - x]]}
    for kind, patches in fields.items():
        for patch in patches:
            free = np.stack([nodes_touching(domain)] * len(patch))
            unknowns = free_unknowns(free)
            matrix = assemble(domain, element_matrices(element)[kind], free)
            force = np.zeros(free.size)
            force[unknowns] = matrix @ np.stack(patch).ravel()[unknowns]
            scale = abs(matrix).max()
            assert np.abs(force.reshape(free.shape)[:, inside]).max(initial=0.0) < 1e-12 * scale


def meshes(domain: np.ndarray, name: str) -> skfem.Basis:
    """Build scikit-fem's mesh of the same pixels."""
    width = domain.shape[1]
    x, y = node_grid(domain)
    points = np.stack([x.ravel(), y.ravel()])
    rows, columns = np.nonzero(domain)
    corner = [(rows + row) * (width + 1) + columns + column for row, column in ((0, 0), (0, 1), (1, 1), (1, 0))]
    if name == "q1":
        cells, kind = np.stack(corner), skfem.MeshQuad
    else:
        a, b, c, d = corner
        cells, kind = np.concatenate([np.stack([a, b, c]), np.stack([a, c, d])], axis=1), skfem.MeshTri
    used, renumbered = np.unique(cells, return_inverse=True)
    return kind(points[:, used], renumbered.reshape(cells.shape)), used


@skfem.BilinearForm
def diffusion_form(u, v, _):
    return dot(grad(u), grad(v))


@skfem.BilinearForm
def mass_form(u, v, _):
    return u * v


@skfem.BilinearForm
def galerkin_form(u, v, _):
    return dot(grad(u), grad(v)) + v * (VELOCITY[0] * grad(u)[0] + VELOCITY[1] * grad(u)[1])


@skfem.BilinearForm
def upwind_form(u, v, w):
    along = [VELOCITY[0] * grad(f)[0] + VELOCITY[1] * grad(f)[1] for f in (u, v)]
    return (v + w.tau * along[1]) * along[0]


@skfem.BilinearForm
def elasticity_form(u, v, _):
    first, shear = 1e3 * 0.3 / (1.3 * 0.4), 1e3 / 2.6
    strain_u, strain_v = sym_grad(u), sym_grad(v)
    trace = (strain_u[0, 0] + strain_u[1, 1]) * (strain_v[0, 0] + strain_v[1, 1])
    product = sum(strain_u[i, j] * strain_v[i, j] for i in (0, 1) for j in (0, 1))
    return first * trace + 2 * shear * product


SKFEM_FORMS = {
    "diffusion": diffusion_form,
    "mass": mass_form,
    "galerkin": galerkin_form,
    "upwind": upwind_form,
    "elasticity": elasticity_form,
}


@pytest.mark.parametrize("kind", SKFEM_FORMS)
@pytest.mark.parametrize("name", ELEMENTS)
def test_solutions_agree_with_scikit_fem_on_random_domains(name, kind):
    for seed in range(8):
        domain = random_domain(seed)
        h = Grid(*domain.shape).h
        element = ELEMENTS[name](h)
        components = 2 if kind == "elasticity" else 1
        pinned = nodes_touching(random_pins(domain, seed))
        free = np.stack([nodes_touching(domain) & ~pinned] * components)
        load = np.random.default_rng(seed).standard_normal(free.shape)
        matrix = element_matrices(element)[kind]
        if kind == "upwind":
            matrix = matrix + forms.diffusion(element)
        ours = System(domain, matrix, free, load).solve()[0]

        mesh, used = meshes(domain, name)
        scalar = skfem.ElementQuad1() if name == "q1" else skfem.ElementTriP1()
        basis = skfem.Basis(mesh, skfem.ElementVector(scalar) if components == 2 else scalar, intorder=3)
        theirs_matrix = SKFEM_FORMS[kind].assemble(basis, tau=2 / 3 * h / np.hypot(*VELOCITY))
        if kind == "upwind":
            theirs_matrix = theirs_matrix + diffusion_form.assemble(basis)
        their_load = load.reshape(components, -1)[:, used].T.ravel()
        their_free = np.flatnonzero(free.reshape(components, -1)[:, used].T.ravel())
        solution = np.zeros(len(their_load))
        restricted = theirs_matrix[their_free][:, their_free]
        solution[their_free] = spsolve(restricted.tocsc(), their_load[their_free])
        theirs = np.zeros((components, free[0].size))
        theirs[:, used] = solution.reshape(-1, components).T
        assert np.linalg.norm(ours.ravel() - theirs.ravel()) < 1e-10 * np.linalg.norm(theirs)


def test_consistent_loads_agree_with_scikit_fem():
    domain = random_domain(3)
    pins = random_pins(domain, 3)

    def source(x, y):
        return np.exp(x) * np.cos(3 * y)

    ours = disol.solve_exact("poisson", domain=domain, dirichlet=pins, source=source, conventions="paper")
    mesh, used = meshes(domain, "q1")
    basis = skfem.Basis(mesh, skfem.ElementQuad1(), intorder=3)
    load = skfem.LinearForm(lambda v, w: source(*w.x) * v).assemble(basis)
    pinned = np.flatnonzero(nodes_touching(pins).ravel()[used])
    theirs = skfem.solve(*skfem.condense(diffusion_form.assemble(basis), load, D=pinned))
    assert ours.nodes[0].ravel()[used] == pytest.approx(theirs, rel=1e-10, abs=1e-13)


@given(rows=st.integers(1, 40), columns=st.integers(1, 40))
def test_elimination_order_visits_every_node_once(rows, columns):
    assert sorted(nested_dissection(rows, columns)) == list(range(rows * columns))


def test_an_unknown_without_an_element_is_an_error_that_names_the_cause():
    domain = np.zeros((4, 4), dtype=bool)
    domain[0, 0] = True
    free = np.ones((1, 5, 5), dtype=bool)
    with pytest.raises(ValueError, match="singular"):
        System(domain, forms.diffusion(ELEMENTS["q1"](0.25)), free, np.ones(free.shape)).solve()


def test_a_matrix_that_needs_pivoting_is_solved_with_pivoting():
    indefinite = sparse.csc_array(np.array([[1e-20, 1.0], [1.0, 1.0]]))
    assert DirectSolver(indefinite).solve(np.array([1.0, 2.0])) == pytest.approx([1.0, 1.0])


def test_solving_leaves_the_number_of_threads_as_it_was():
    before = [library["num_threads"] for library in threadpool_info()]
    disol.solve_exact(disol.draw("poisson", resolution=16, conventions="paper"))
    assert [library["num_threads"] for library in threadpool_info()] == before
