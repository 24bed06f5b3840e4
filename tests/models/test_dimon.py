"""Maps of domains to the disc, what DIMON reads there, and the domains that it refuses."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
import torch
from scipy import ndimage

from disol.cases import draw
from disol.geometry import Curve, draw_outline, trace_boundary
from disol.geometry.curve import largest_part
from disol.grid import Grid
from disol.models import create_model, dimon
from disol.models.dimon import disc_points, find_displacements
from disol.nn import known_domains
from disol.nn.disc_map import map_to_disc, walk_boundaries
from disol.nn.known_domains import fingerprints

SMALL = {"width": 8, "points": 40, "components": 4, "basis": 8, "trunk_width": 8}


def random_masks(count, side=32):
    outlines = [draw_outline(np.random.default_rng([5, index])) for index in range(count)]
    return torch.from_numpy(np.stack([largest_part(outline.inside(Grid(side, side))) for outline in outlines]))


def disc_mask(side, radius=0.45):
    angle = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    circle = Curve(0.5 + radius * np.stack([np.cos(angle), np.sin(angle)], axis=1))
    return torch.from_numpy(circle.inside(Grid(side, side)).copy())[None]


def small_model(problem="poisson", **settings):
    torch.manual_seed(0)
    return create_model("dimon", problem, **SMALL | settings)


def test_no_pixel_of_a_random_outline_is_folded():
    masks = random_masks(20)
    assert walk_boundaries(masks).is_whole.all(), "all of them can be mapped"
    disc_map = map_to_disc(masks)
    assert not disc_map.count_folds().any()
    inside = disc_map.pixels.norm(dim=1)[masks]
    assert (inside < 1).all()
    assert len(disc_map.pixels.movedim(1, -1)[masks].unique(dim=0)) == masks.sum()


def test_domains_that_cannot_be_mapped_are_told_before_they_are_refused():
    masks = random_masks(3)
    row, column = np.argwhere(ndimage.binary_erosion(masks[1], iterations=2))[0]
    masks[1, row, column] = False  # a hole
    masks[2, :, 16] = False  # two parts
    assert small_model().accepts(masks).tolist() == [True, False, False]
    assert create_model("unet", "poisson").accepts(masks) is None


def test_corners_of_the_boundary_lie_on_the_circle_and_others_are_means_of_their_neighbours():
    mask = random_masks(1)
    corners = map_to_disc(mask).corners[0]
    node = {}
    for corner, (down, across) in enumerate([(0, 0), (0, 1), (1, 1), (1, 0)]):
        for row, column in mask[0].nonzero().tolist():
            node[row + down, column + across] = corners[corner, :, row, column].numpy()
    framed = np.pad(mask[0].numpy(), 1)
    for (row, column), place in node.items():
        if framed[row : row + 2, column : column + 2].all():
            around = [node[row + down, column + across] for down, across in [(0, 1), (1, 0), (0, -1), (-1, 0)]]
            np.testing.assert_allclose(place, np.mean(around, axis=0), atol=1e-12)
        else:
            assert np.hypot(*place) == pytest.approx(1)


def test_a_walk_takes_the_sides_in_the_order_of_the_traced_boundary():
    mask = random_masks(1)
    walk = walk_boundaries(mask)
    order = walk.fraction[0][walk.is_side[0]].argsort()
    pixels = walk.is_side[0].nonzero()[order][:, 1:].numpy()
    changes = np.any(pixels != np.roll(pixels, 1, axis=0), axis=1)
    (loop,) = trace_boundary(mask[0].numpy())
    walked = pixels[changes]
    start = next(shift for shift in range(len(loop)) if np.array_equal(np.roll(loop, -shift, axis=0), walked))
    assert start >= 0


def test_the_map_of_a_disc_moves_little_and_less_on_finer_grids():
    errors = []
    for side in (24, 48):
        mask = disc_mask(side)
        centres = (torch.arange(side) + 0.5) / side
        expected = torch.stack([centres.expand(side, side), centres[:, None].expand(side, side)]) / 0.45 - 0.5 / 0.45
        errors.append((map_to_disc(mask).pixels[0] - expected).norm(dim=0)[mask[0]].max())
    assert errors[0] < 0.15
    assert errors[1] < errors[0]


def test_a_quarter_turn_of_the_domain_is_a_quarter_turn_of_the_map():
    mask = random_masks(1)
    turned = map_to_disc(mask.rot90(1, (1, 2))).pixels
    x, y = map_to_disc(mask).pixels.unbind(1)
    expected = torch.stack([y, -x], 1).rot90(1, (2, 3))
    torch.testing.assert_close(turned, expected, rtol=0, atol=1e-9)


def test_points_of_the_disc_come_from_where_the_map_leads_to_them():
    mask, points = disc_mask(48), disc_points(64)
    disc_map = map_to_disc(mask)
    moved = find_displacements(disc_map, disc_map.nearest(points), points)[0]
    expected = (0.5 + 0.45 * points - (1 + points) / 2).T
    np.testing.assert_allclose(moved, expected, atol=0.05)


def test_parts_that_touch_at_a_corner_are_one_loop_and_do_not_fold():
    mask = torch.zeros(1, 12, 12, dtype=torch.bool)
    mask[0, 2:10, 2:10] = True
    mask[0, 4, 2:6] = False  # an inlet ...
    mask[0, 5, 6] = False  # ... that goes on behind a corner
    assert not map_to_disc(mask).count_folds().any()


@pytest.mark.parametrize("pieces", ["hole", "two parts", "nothing"])
def test_domains_with_holes_or_in_parts_are_refused(pieces):
    model, inputs = small_model(), torch.zeros(2, 3, 16, 16)
    inputs[:, 0, 2:13, 2:13] = 1
    if pieces == "hole":
        inputs[1, 0, 6:8, 6:8] = 0
    elif pieces == "two parts":
        inputs[1, 0, 6] = 0
    else:
        inputs[1, 0] = 0
    with pytest.raises(ValueError, match="one part without holes, but that of case 1 of the batch is not"):
        model(inputs)


def test_the_field_is_the_product_of_both_branches_and_the_trunk():
    model = small_model("elasticity")
    torch.nn.init.normal_(model.bias)
    inputs = torch.from_numpy(draw("elasticity", seed=0, resolution=16, conventions="paper").inputs)[None].float()
    reading = model.read(inputs, model.domain_of(inputs))
    coefficients = (model.shape_branch(reading.shape) * model.data_branch(reading.data)).reshape(2, 8)
    prediction = model(inputs)[0]
    for row, column in inputs[0, 0].nonzero()[::9].tolist():
        basis = torch.nn.functional.gelu(model.trunk(reading.places[0, :, row, column]))
        torch.testing.assert_close(prediction[:, row, column], coefficients @ basis + model.bias)


def test_the_components_of_the_outlines_they_are_from_have_variance_one():
    model = small_model(points=64, components=6)
    masks = random_masks(40).float()
    inputs = torch.stack([masks, torch.zeros_like(masks), masks], 1)
    values = model.read(inputs, model.domain_of(inputs)).shape
    assert values.shape == (40, 12)
    assert values.std(0).mean() == pytest.approx(1, abs=0.3)
    assert torch.equal(model.components, small_model(points=64, components=6).components)


def test_too_many_components_are_refused():
    with pytest.raises(ValueError, match="components must be at most 40, got 50"):
        small_model(components=50)


def stack_inputs(masks, seed=3):
    others = torch.randn(2, *masks.shape, generator=torch.Generator().manual_seed(seed))
    return torch.stack([masks.float(), *(others * masks)], 1)


def read_afresh(model, inputs):
    fresh = deepcopy(model).eval()
    return fresh.read(inputs, fresh.domain_of(inputs))


def count_bytes_kept(model):
    return sum(row.nbytes for rows in model.known_domains.rows.values() for row in rows.values())


def require_same_reading(model, inputs):
    reading, expected = model.read(inputs, model.domain_of(inputs)), read_afresh(model, inputs)
    for found, wanted in zip(reading, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    assert torch.equal(reading.data, expected.data)
    assert [each.dtype for each in reading] == [each.dtype for each in expected]


@pytest.fixture
def mapped(monkeypatch):
    """How many domains each call mapped to the disc."""
    counts = []

    def counted(masks, cases=None):
        counts.append(len(masks))
        return map_to_disc(masks, cases)

    monkeypatch.setattr(dimon, "map_to_disc", counted)
    return counts


@pytest.mark.parametrize("is_training", [True, False])
def test_what_is_known_of_a_domain_is_what_is_found_afresh(mapped, is_training):
    model, masks = small_model().train(is_training), random_masks(6)
    model(stack_inputs(masks[:3]))
    for chosen in ([0, 1, 2], [4, 0, 4, 2, 5], [5, 5], [3]):
        require_same_reading(model, stack_inputs(masks[chosen], seed=len(chosen)))
    by_model, by_fresh_ones = [3, 2, 1], [3, 4, 1, 1]
    assert mapped == [by_model[0], by_fresh_ones[0], by_model[1], *by_fresh_ones[1:3], by_model[2], by_fresh_ones[3]]


@pytest.mark.parametrize("width", [32, 24])
def test_maps_turn_with_their_domains(width):
    touching = torch.zeros(1, 32, width, dtype=torch.bool)
    touching[0, 2:10, 2:10] = True
    touching[0, 4, 2:6] = touching[0, 5, 6] = False
    outlines = random_masks(8)[:, :, (32 - width) // 2 : (32 + width) // 2]
    masks = torch.cat([outlines[walk_boundaries(outlines).is_whole], touching])
    versions = list(map_to_disc(masks).symmetric_versions())
    assert len(versions) == len({version.mask.numpy().tobytes() for version in versions}) == (8 if width == 32 else 4)
    assert torch.equal(versions[0].mask, masks)
    for version in versions:
        inside = version.mask[:, None, None]
        expected = map_to_disc(version.mask)
        torch.testing.assert_close(version.corners * inside, expected.corners * inside, rtol=0, atol=1e-12)


def test_in_training_symmetric_versions_of_a_domain_need_no_map_of_their_own(mapped):
    model, masks = small_model(), random_masks(3)
    model(stack_inputs(masks))
    for turned in (masks.rot90(1, (1, 2)), masks.mT, masks.flip(1), masks.rot90(3, (1, 2)).flip(2)):
        mapped.clear()
        require_same_reading(model, stack_inputs(turned))
        assert mapped == [3], "by the fresh one alone"


def test_a_symmetric_domain_is_read_the_same_way_twice():
    model, inputs = small_model(), stack_inputs(disc_mask(48))
    first, second = (model.read(inputs, model.domain_of(inputs)) for _ in range(2))
    assert all(map(torch.equal, first, second))


def test_domains_for_which_there_is_no_room_are_mapped_each_time(monkeypatch, mapped):
    model, masks = small_model(), random_masks(4)
    bytes_of_row = 4 * (2 * 32 * 32 + 3 * model.points)
    monkeypatch.setattr(known_domains, "room_on", lambda device: 3 * bytes_of_row)
    for chosen in ([0, 1], [0, 1], [2, 1, 3, 2], [2, 0, 3, 1]):
        require_same_reading(model, stack_inputs(masks[chosen]))
    by_model, by_fresh_ones = [2, 2, 2], [2, 2, 3, 4]
    assert mapped == [by_model[0], *by_fresh_ones[:2], by_model[1], by_fresh_ones[2], by_model[2], by_fresh_ones[3]]
    assert count_bytes_kept(model) == 2 * bytes_of_row


def test_copies_and_files_of_a_network_know_no_domains():
    model, inputs = small_model(), stack_inputs(random_masks(2))
    names = list(model.state_dict())
    before = len(pickle.dumps(model))
    expected = model(inputs)
    assert count_bytes_kept(model) > 0
    assert list(model.state_dict()) == names
    assert len(pickle.dumps(model)) == before
    for copied in (deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert count_bytes_kept(copied) == 0
        torch.testing.assert_close(copied(inputs), expected)


def test_known_domains_follow_the_weights_and_their_precision():
    model, inputs = small_model(), stack_inputs(random_masks(2))
    with torch.autocast("cpu", torch.bfloat16), torch.inference_mode():
        model(inputs)
    require_same_reading(model, inputs)
    model(inputs).sum().backward()
    model.load_state_dict({name: 1.5 * weight for name, weight in model.state_dict().items()})
    require_same_reading(model, inputs)
    require_same_reading(model.double(), inputs.double())
    require_same_reading(model.float(), inputs)


def test_known_domains_begin_anew_on_another_device(mapped):
    model, inputs = small_model(), stack_inputs(random_masks(2))
    model(inputs)
    model.known_domains.device = torch.device("cuda", 1)  # as if they had been found there
    model(inputs)
    assert mapped == [2, 2]


def test_a_refused_domain_among_known_ones_is_told_by_its_place_in_the_batch():
    model, masks = small_model(), random_masks(4)
    model(stack_inputs(masks[:2]))
    masks[3] = 0
    with pytest.raises(ValueError, match="but that of case 3 of the batch is not"):
        model(stack_inputs(masks))


def test_fingerprints_tell_apart_domains_that_differ_by_a_pixel():
    masks = torch.eye(16 * 16, dtype=torch.bool).reshape(-1, 16, 16)
    masks = torch.cat([masks, ~masks, torch.zeros_like(masks[:1])])
    found = fingerprints(masks)
    assert len({first for first, _ in found}) == len({second for _, second in found}) == len(masks)
    assert fingerprints(masks[7:9]) == found[7:9]
