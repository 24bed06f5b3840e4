"""Losses are what their names say."""

import pytest
import torch

from disol.models import create_model
from disol.training.losses import (
    LEAST_SIZE,
    LOSSES,
    SLOPES_WEIGHT,
    log_amplitude_error,
    squared_slopes,
    training_loss,
    validation_loss,
)


def batch_of(target: torch.Tensor) -> dict[str, torch.Tensor]:
    amplitude = torch.full((len(target),), 2.0, dtype=torch.float64)
    return {"target": target, "domain": (target != 0).any(1, keepdim=True), "amplitude": amplitude}


def test_the_grid_loss_counts_pixels_outside_the_domain() -> None:
    target = torch.zeros(1, 1, 4, 4)
    target[..., :2, :] = 1.0
    assert LOSSES["grid-l1"](torch.zeros(1, 1, 4, 4), batch_of(target)).tolist() == [0.5]


RELATIVE = {"relative-l1": 0.1, "relative-l2": 0.1, "relative-h1": 0.1 + SLOPES_WEIGHT * 0.1}


@pytest.mark.parametrize(("name", "expected"), RELATIVE.items())
def test_relative_losses_ignore_scale_and_the_size_of_the_domain(name: str, expected: float) -> None:
    target = torch.randn(3, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    loss = LOSSES[name]
    torch.testing.assert_close(loss(1.1 * target, batch_of(target)), torch.full((3,), expected))
    torch.testing.assert_close(loss(11 * target, batch_of(10 * target)), torch.full((3,), expected))
    padded = [torch.nn.functional.pad(values, (0, 4)) for values in (1.1 * target, target)]
    torch.testing.assert_close(loss(padded[0], batch_of(padded[1])), torch.full((3,), expected))


@pytest.mark.parametrize("name", RELATIVE)
def test_a_pattern_that_has_vanished_counts_as_one_of_the_least_size(name: str) -> None:
    """Or a case of heat that has decayed to 1e-9 of its amplitude would weigh millions of others."""
    domain = torch.ones(1, 1, 8, 8, dtype=torch.bool)
    batch = {"target": torch.full((1, 1, 8, 8), 1e-9), "domain": domain}
    error = torch.full((1, 1, 8, 8), 0.01 * LEAST_SIZE)
    torch.testing.assert_close(LOSSES[name](batch["target"] + error, batch), torch.tensor([0.01]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", RELATIVE)
def test_patterns_above_the_least_size_count_by_their_own(name: str) -> None:
    target = torch.full((1, 1, 8, 8), 1.1 * LEAST_SIZE)
    loss = LOSSES[name](1.1 * target, batch_of(target))
    torch.testing.assert_close(loss, torch.tensor([0.1]), rtol=1e-4, atol=1e-4)


def test_slopes_count_between_pixels_of_the_domain_alone() -> None:
    domain = torch.tensor([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]], dtype=torch.bool)[None, None]
    pattern = torch.arange(16.0).reshape(1, 1, 4, 4).square()
    expected = sum(
        (pattern[0, 0, i, j] - pattern[0, 0, k, m]) ** 2
        for (i, j), (k, m) in (((0, 0), (0, 1)), ((0, 1), (0, 2)), ((1, 0), (1, 1)), ((0, 0), (1, 0)), ((0, 1), (1, 1)))
    )
    assert squared_slopes(pattern, domain).tolist() == [expected]


def test_a_shifted_pattern_has_the_slopes_of_the_exact_one() -> None:
    target = 1 + torch.rand(2, 2, 5, 6, generator=torch.Generator().manual_seed(0))
    shifted, batch = target + 0.3, batch_of(target)
    torch.testing.assert_close(LOSSES["relative-h1"](shifted, batch), LOSSES["relative-l2"](shifted, batch))


def test_a_pattern_without_slopes_counts_as_one_that_falls_across_the_grid() -> None:
    target, error = torch.ones(1, 1, 8, 8), torch.zeros(1, 1, 8, 8)
    error[..., 4:] = 1e-3
    slopes = LOSSES["relative-h1"](target + error, batch_of(target)) - LOSSES["relative-l2"](
        error + target, batch_of(target)
    )
    # A step of 1e-3 in 8 rows, where the slopes of a fall are 1/8 at 64 pixels.
    assert slopes.item() == pytest.approx(SLOPES_WEIGHT * 1e-3 * 8**0.5, rel=1e-3)


@pytest.mark.parametrize("loss", LOSSES.values())
def test_an_exact_prediction_has_no_loss_and_a_finite_gradient(loss) -> None:
    for target in (torch.ones(2, 1, 4, 4), torch.zeros(2, 1, 4, 4)):
        prediction = target.clone().requires_grad_()
        loss(prediction, batch_of(target)).sum().backward()
        assert loss(prediction, batch_of(target)).max() <= (1e-5 if target.any() else 1 + SLOPES_WEIGHT)
        assert prediction.grad.isfinite().all()


def test_the_amplitude_is_the_largest_of_all_fields() -> None:
    joint = {"amplitude": torch.tensor([2.0, 3.0], dtype=torch.float64)}
    components = {"amplitude": torch.tensor([[2.0, 1.0], [0.5, 3.0]], dtype=torch.float64)}
    for batch in (joint, components):
        errors = log_amplitude_error(torch.log(torch.tensor([2.0, 6.0])), batch)
        torch.testing.assert_close(errors, torch.tensor([0.0, torch.log(torch.tensor(2.0)) ** 2]))


def test_small_amplitudes_count_as_they_are() -> None:
    batch = {"amplitude": torch.tensor([1e-6, 1e-10], dtype=torch.float64)}
    errors = log_amplitude_error(torch.log(torch.tensor([1e-6, 1e-9])), batch)
    torch.testing.assert_close(errors, torch.tensor([0.0, torch.log(torch.tensor(10.0)) ** 2]), rtol=1e-4, atol=1e-6)


def test_a_network_is_judged_by_what_it_predicts() -> None:
    pattern, amplitude = (create_model(name, "poisson") for name in ("disol", "disol-amplitude"))
    assert training_loss(pattern, "relative-l2") is LOSSES["relative-l2"]
    assert validation_loss(pattern) is LOSSES["grid-l1"]
    assert training_loss(amplitude, "relative-l2") is validation_loss(amplitude) is log_amplitude_error
