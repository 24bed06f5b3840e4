import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from disol.fields import HIGH_FREQUENCY, IN_DISTRIBUTION, Field, at_nodes, at_pixels, draw_field
from disol.grid import Grid

SEEDS = st.integers(0, 2**32)


@given(seed=SEEDS)
def test_a_row_and_a_column_give_what_single_points_give(seed):
    field = draw_field(np.random.default_rng(seed), HIGH_FREQUENCY)
    x, y = Grid(9, 13).pixel_centres()
    points = field(*(axis.ravel() for axis in np.broadcast_arrays(x, y)))
    assert field(x, y).ravel() == pytest.approx(points, rel=1e-10, abs=1e-13)


@given(seed=SEEDS, settings=st.sampled_from([IN_DISTRIBUTION, HIGH_FREQUENCY]))
def test_weights_are_positive_and_sum_to_one(seed, settings):
    field = draw_field(np.random.default_rng(seed), settings)
    weights = np.concatenate([field.waves[:, 0], field.bumps[:, 0]])
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1.0)
    assert 1 <= len(weights) <= 2 * settings.most_terms
    assert (np.abs(field.waves[:, 1:3]) <= settings.frequency).all()
    assert ((field.bumps[:, 3] >= settings.width[0]) & (field.bumps[:, 3] <= settings.width[1])).all()


def test_a_wave_and_a_bump_are_the_functions_of_the_paper():
    field = Field(np.array([[0.5, 1.0, 2.0, 0.3]]), np.array([[0.5, 0.2, 0.7, 0.4]]))
    x, y = np.array([0.1, 0.9]), np.array([0.8, 0.3])
    wave = np.sin(2 * np.pi * (x + 2 * y) + 0.3)
    bump = np.exp(-((x - 0.2) ** 2 + (y - 0.7) ** 2) / (2 * 0.4**2))
    assert field(x, y) == pytest.approx(0.5 * wave + 0.5 * bump)


@given(seed=SEEDS)
def test_scaling_maps_samples_to_the_unit_interval(seed):
    field = draw_field(np.random.default_rng(seed))
    x, y = Grid(16, 16).pixel_centres()
    scaled = field.scaled_to_unit(field(x, y))(x, y)
    assert scaled.min() == pytest.approx(0.0, abs=1e-9)
    assert scaled.max() == pytest.approx(1.0, abs=1e-9)


def test_scaling_a_constant_field_does_not_divide_by_zero():
    constant = Field(np.array([[1.0, 0.0, 0.0, np.pi / 2]]), np.zeros((0, 4)))
    x, y = Grid(4, 4).pixel_centres()
    assert not constant.scaled_to_unit(constant(x, y))(x, y).any()


def test_pixel_values_are_constant_per_pixel_and_averaged_at_nodes():
    mask = np.array([[True, True], [True, False]])
    values = np.array([[1.0, 2.0], [6.0, 99.0]])
    assert at_pixels(values, mask).tolist() == [[1.0, 2.0], [6.0, 0.0]]
    nodes = at_nodes(values, mask, np.ones((3, 3), dtype=bool))
    assert nodes[0].tolist() == [1.0, 1.5, 2.0]
    assert nodes[1].tolist() == [3.5, 3.0, 2.0]
    assert nodes[2].tolist() == [6.0, 6.0, 0.0]


def fills(values, low, high):
    """Tell whether values lie between two numbers and come near to both."""
    margin = 0.05 * (high - low)
    return low <= values.min() < low + margin and high - margin < values.max() <= high


@pytest.mark.parametrize(
    ("settings", "most_terms", "frequency", "phase", "widths"),
    [(IN_DISTRIBUTION, 3, 1.0, np.pi / 4, (0.5, 1.5)), (HIGH_FREQUENCY, 7, 4.0, np.pi, (0.02, 0.4))],
)
def test_drawn_fields_fill_the_ranges_of_the_paper(settings, most_terms, frequency, phase, widths):
    drawn = [draw_field(np.random.default_rng(seed), settings) for seed in range(300)]
    waves, bumps = (np.concatenate([getattr(field, name) for field in drawn]) for name in ("waves", "bumps"))
    for name in ("waves", "bumps"):
        assert {len(getattr(field, name)) for field in drawn} == set(range(most_terms + 1))
    assert fills(waves[:, 1:3], 0.0, frequency)
    assert fills(waves[:, 3], -phase, phase + np.pi / 2)  # sines, and cosines
    assert fills(bumps[:, 1:3], 0.0, 1.0)
    assert fills(bumps[:, 3], *widths)


@given(seed=SEEDS)
def test_a_scaled_field_can_be_scaled_again_to_other_samples(seed):
    x, y = Grid(16, 16).pixel_centres()
    field = draw_field(np.random.default_rng(seed))
    field = field.scaled_to_unit(field(x, y))
    part = field(x[:, :5], y)
    again = field.scaled_to_unit(part)(x[:, :5], y)
    assert again.min() == pytest.approx(0.0, abs=1e-9)
    assert again.max() == pytest.approx(1.0, abs=1e-9)
