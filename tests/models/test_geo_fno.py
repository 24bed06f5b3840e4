"""Geo-FNO without a deformation is an FNO, and its sums over pixels are those of Fourier."""

import numpy as np
import pytest
import torch

from disol.models import create_model

SMALL = {"width": 4, "modes": 3, "latent": 12, "deformation_width": 8, "head_width": 8}


def small_model(problem="poisson", **settings):
    torch.manual_seed(0)
    return create_model("geo-fno", problem, **SMALL | settings)


def undeformed(model):
    torch.nn.init.zeros_(model.deformation.layers[-1].weight)
    torch.nn.init.zeros_(model.deformation.layers[-1].bias)
    return model


def test_without_deformation_it_is_the_fno_on_a_full_square():
    model = undeformed(small_model(problem="elasticity"))
    torch.manual_seed(1)
    fno = create_model("fno", "elasticity", width=4, modes=3, layers=5, head_width=8)
    with torch.no_grad():
        spectral = [model.inward, *[layer.spectral for layer in model.layers], model.outward]
        for own, other, term in zip(spectral, fno.layers, model.place_terms, strict=True):
            other.spectral.weight.copy_(own.weight)
            term.weight.zero_()
            other.pointwise.bias.copy_(term.bias)
        for own, other in zip(model.layers, fno.layers[1:-1], strict=True):
            other.pointwise.weight.copy_(own.pointwise.weight)
            other.pointwise.bias.add_(own.pointwise.bias)
        for layer in (fno.layers[0], fno.layers[-1]):  # nothing goes past the sums to another grid
            layer.pointwise.weight.zero_()
        fno.lift.load_state_dict(model.lift.state_dict())
        fno.head.load_state_dict(model.head.state_dict())
    inputs = torch.rand(2, 5, 12, 12)
    inputs[:, 0] = 1
    torch.testing.assert_close(model(inputs), fno(inputs), rtol=1e-4, atol=1e-6)


def test_what_is_analysed_is_synthesised_again():
    """On a full square, sums over all pixels and one-sided sums over modes give a band-limited field back."""
    model = undeformed(small_model())
    column, row = np.meshgrid(np.arange(16) / 16, np.arange(16) / 16)
    field = 0.3 + np.sin(2 * np.pi * (2 * column + row)) + np.cos(2 * np.pi * (column - 2 * row))
    features, domain = torch.from_numpy(field).float()[None, None], torch.ones(1, 1, 16, 16)
    waves = model.find_waves(domain)
    found = waves.synthesise(waves.analyse(features, domain)).unflatten(2, (16, 16))
    torch.testing.assert_close(found, features, rtol=0, atol=1e-5)


def test_sums_are_over_the_pixels_of_the_domain_and_count_them():
    model = small_model()
    domain = (torch.rand(2, 1, 9, 10, generator=torch.Generator().manual_seed(0)) > 0.4).float()
    features = torch.randn(2, 3, 9, 10)
    waves = model.find_waves(domain)
    found = waves.analyse(features, domain)
    constant = waves.analyse(torch.ones(2, 1, 9, 10), domain)
    torch.testing.assert_close(constant[:, 0, 0, 0, 0], torch.ones(2))
    for case in range(2):
        inside = domain[case, 0].flatten() > 0
        wave = waves.cosines[case, inside] - 1j * waves.sines[case, inside]
        expected = (features[case].flatten(1)[:, inside, None] * wave).mean(1)
        torch.testing.assert_close(torch.view_as_complex(found[case]).flatten(1), expected, rtol=1e-4, atol=1e-5)
    changed = torch.where(domain > 0, features, 7.0)
    torch.testing.assert_close(waves.analyse(changed, domain), found)


def test_the_deformation_depends_on_the_domain():
    model = small_model()
    places = torch.rand(2, 9, 9)
    left, right = torch.zeros(1, 1, 9, 9), torch.zeros(1, 1, 9, 9)
    left[..., :4] = right[..., 5:] = 1
    assert not torch.allclose(model.deformation(places, left), model.deformation(places, right))


def test_a_latent_grid_without_its_modes_is_refused():
    with pytest.raises(ValueError, match="latent must be at least 2 modes = 16, got 15"):
        create_model("geo-fno", "poisson", latent=15)
