"""What training makes small: one number per case, of a prediction against the batch it was made for."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from disol.data.dataset import Batch
from disol.models import Network

Pattern = Float[Tensor, "batch field height width"]
CaseLoss = Callable[[Tensor, Batch], Float[Tensor, " batch"]]
SMALLEST = 1e-12  # keeps the norm of an empty field from dividing, and its amplitude from having no logarithm


def grid_l1(prediction: Pattern, batch: Batch) -> Float[Tensor, " batch"]:
    """Mean of |û − u| over the whole grid, zeros outside the domain included: the paper's number."""
    return (prediction - batch["target"]).abs().mean((1, 2, 3))


def relative_l1(prediction: Pattern, batch: Batch) -> Float[Tensor, " batch"]:
    """Return ‖û − u‖₁ / ‖u‖₁; both vanish outside the domain."""
    error, size = (prediction - batch["target"]).abs().sum((1, 2, 3)), batch["target"].abs().sum((1, 2, 3))
    return error / size.clamp(min=SMALLEST)


def relative_l2(prediction: Pattern, batch: Batch) -> Float[Tensor, " batch"]:
    """Return ‖û − u‖₂ / ‖u‖₂; both vanish outside the domain."""
    # The root of an exact 0 has no finite slope.
    error = (prediction - batch["target"]).square().sum((1, 2, 3)).clamp(min=SMALLEST).sqrt()
    size = batch["target"].square().sum((1, 2, 3)).clamp(min=SMALLEST).sqrt()
    return error / size


def log_amplitude_error(prediction: Float[Tensor, " batch"], batch: Batch) -> Float[Tensor, " batch"]:
    """Return (a − ln u_lim)², u_lim the largest amplitude of any field."""
    largest = batch["amplitude"].flatten(1).amax(1) if batch["amplitude"].ndim > 1 else batch["amplitude"]
    return (prediction - torch.log(largest.clamp(min=SMALLEST)).to(prediction.dtype)).square()


LOSSES: dict[str, CaseLoss] = {"grid-l1": grid_l1, "relative-l1": relative_l1, "relative-l2": relative_l2}


def training_loss(network: Network, name: str) -> CaseLoss:
    """Return the loss a network is trained by: the one named, for patterns."""
    return LOSSES[name] if network.predicts == "pattern" else log_amplitude_error


def validation_loss(network: Network) -> CaseLoss:
    """Return the loss a network is judged by, however it is trained."""
    return training_loss(network, "grid-l1")
