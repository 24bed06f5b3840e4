import numpy as np
import pytest

from disol.fem import ELEMENTS, forms

BOTH = pytest.mark.parametrize("element", [build(0.25) for build in ELEMENTS.values()], ids=list(ELEMENTS))
CORNER_POSITIONS = np.array([(0, 0), (1, 0), (1, 1), (0, 1)], dtype=float)


@BOTH
def test_quadrature_weights_sum_to_the_area_of_a_pixel(element):
    assert element.weights.sum() == pytest.approx(element.h**2)


@BOTH
def test_corner_functions_sum_to_one_and_reproduce_positions(element):
    assert element.values.sum(axis=1) == pytest.approx(1.0)
    assert element.values @ CORNER_POSITIONS == pytest.approx(element.positions)


@BOTH
def test_gradients_of_linear_functions_are_exact(element):
    linear = CORNER_POSITIONS @ [3.0, -2.0] * element.h
    gradients = np.einsum("pcd,c->pd", element.gradients, linear)
    assert gradients == pytest.approx(np.broadcast_to([3.0, -2.0], gradients.shape))


def test_bilinear_stiffness_is_the_known_matrix():
    known = np.array([[4, -1, -2, -1], [-1, 4, -1, -2], [-2, -1, 4, -1], [-1, -2, -1, 4]]) / 6
    assert forms.diffusion(ELEMENTS["q1"](0.125)) == pytest.approx(known)


@BOTH
def test_mass_of_a_pixel_is_its_area(element):
    assert forms.mass(element).sum() == pytest.approx(element.h**2)


@BOTH
@pytest.mark.parametrize("plane", ["strain", "stress"])
def test_rigid_motions_have_no_elastic_energy(element, plane):
    matrix = forms.elasticity(element, forms.hooke(1e3, 0.3, plane))
    x, y = CORNER_POSITIONS.T
    for motion in ([np.ones(4), np.zeros(4)], [np.zeros(4), np.ones(4)], [-y, x]):
        assert np.abs(matrix @ np.stack(motion, axis=1).ravel()).max() < 1e-10


def test_plane_stress_under_uniaxial_tension_contracts_by_poissons_ratio():
    stress = np.linalg.solve(forms.hooke(1e3, 0.3, "stress"), [1.0, 0.0, 0.0])
    assert stress == pytest.approx([1e-3, -0.3e-3, 0.0])


def test_plane_strain_uses_the_lame_parameters():
    first, shear = 1e3 * 0.3 / (1.3 * 0.4), 1e3 / 2.6
    assert forms.hooke(1e3, 0.3, "strain")[0] == pytest.approx([first + 2 * shear, first, 0.0])


@BOTH
def test_upwinding_adds_diffusion_along_the_flow_only(element):
    matrix = forms.streamline_diffusion(element, (2.0, 0.0))
    assert matrix == pytest.approx(matrix.T)
    across = CORNER_POSITIONS[:, 1]
    assert np.abs(matrix @ across).max() < 1e-14
