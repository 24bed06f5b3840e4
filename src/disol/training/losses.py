"""Training losses, one value per case."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from disol.data.dataset import Batch

Pattern = Float[Tensor, "batch field height width"]
PerCase = Float[Tensor, " batch"]
CaseLoss = Callable[[Tensor, Batch], PerCase]
SLOPES_WEIGHT = 0.5  # relative errors of slopes are several times those of values
# Least root mean square over the domain that errors of a pattern are divided by. Heat without a source decays to
# nothing: relative errors are then unbounded, and one case in twenty would dominate the gradient of its batch.
LEAST_SIZE = 0.02
_SMALLEST = 1e-12  # for a zero field, whose norm cannot be divided by and whose amplitude has no logarithm


def grid_l1(prediction: Pattern, batch: Batch) -> PerCase:
    """Mean of |û − u| over the whole grid, zeros outside the domain included: the loss of the paper."""
    return (prediction - batch["target"]).abs().mean((1, 2, 3))


def relative_l1(prediction: Pattern, batch: Batch) -> PerCase:
    """Return ‖û − u‖₁ / ‖u‖₁; both vanish outside the domain."""
    error, size = (prediction - batch["target"]).abs().sum((1, 2, 3)), batch["target"].abs().sum((1, 2, 3))
    return error / torch.maximum(size, LEAST_SIZE * _num_values(batch)).clamp(min=_SMALLEST)


def relative_l2(prediction: Pattern, batch: Batch) -> PerCase:
    """Return ‖û − u‖₂ / ‖u‖₂; both vanish outside the domain."""
    return _ratio((prediction - batch["target"]).square().sum((1, 2, 3)), _squared_size(batch))


def relative_h1(prediction: Pattern, batch: Batch) -> PerCase:
    """Return ‖û − u‖₂ / ‖u‖₂ + ½ ‖∇û − ∇u‖₂ / ‖∇u‖₂: wrong gradients count, not only wrong values.

    Slopes are taken between neighbouring pixels of the domain, as a pattern may jump to the zeros around it. A nearly
    constant one counts as if it fell to zero once across the grid: small errors are not a large share of its slopes.
    """
    domain, target = batch["domain"], batch["target"]
    falling = _squared_size(batch) / max(target.shape[2:]) ** 2
    size = torch.maximum(squared_slopes(target, domain), falling)
    slopes = _ratio(squared_slopes(prediction - target, domain), size)
    return relative_l2(prediction, batch) + SLOPES_WEIGHT * slopes


def squared_slopes(pattern: Pattern, domain: Bool[Tensor, "batch 1 height width"]) -> PerCase:
    """Sum the squared differences of neighbours in the domain."""
    across = pattern.diff(dim=3) * (domain[..., 1:] & domain[..., :-1])
    down = pattern.diff(dim=2) * (domain[..., 1:, :] & domain[..., :-1, :])
    return across.square().sum((1, 2, 3)) + down.square().sum((1, 2, 3))


def log_amplitude_error(prediction: Float[Tensor, " batch"], batch: Batch) -> PerCase:
    """Return (a − ln u_lim)², where u_lim is the largest amplitude of any field."""
    largest = batch["amplitude"].flatten(1).amax(1) if batch["amplitude"].ndim > 1 else batch["amplitude"]
    return (prediction - torch.log(largest.clamp(min=_SMALLEST)).to(prediction.dtype)).square()


LOSSES: dict[str, CaseLoss] = {
    "grid-l1": grid_l1,
    "relative-l1": relative_l1,
    "relative-l2": relative_l2,
    "relative-h1": relative_h1,
}


def training_loss(network: nn.Module, name: str) -> CaseLoss:
    """Return the loss that a network is trained by: the one named, if it predicts patterns."""
    return LOSSES[name] if getattr(network, "predicts", "pattern") == "pattern" else log_amplitude_error


def validation_loss(network: nn.Module) -> CaseLoss:
    """Return the loss that a network is validated by, whatever its training loss."""
    return training_loss(network, "grid-l1")


def _squared_size(batch: Batch) -> PerCase:
    """Return ‖u‖₂², but no less than that of a pattern of LEAST_SIZE throughout the domain."""
    return torch.maximum(batch["target"].square().sum((1, 2, 3)), LEAST_SIZE**2 * _num_values(batch))


def _num_values(batch: Batch) -> PerCase:
    return (batch["domain"].sum((1, 2, 3)) * batch["target"].shape[1]).to(batch["target"].dtype)


def _ratio(squared_error: PerCase, squared_size: PerCase) -> PerCase:
    """Divide two norms, given their squares."""
    # The root of an exact 0 has no finite derivative.
    return squared_error.clamp(min=_SMALLEST).sqrt() / squared_size.clamp(min=_SMALLEST).sqrt()
