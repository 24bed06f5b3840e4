"""Checks of what a user passes: each raises a `DisolError` that says what was expected, what came and what to do."""

import math
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Shaped

from disol._arrays import Array, is_tensor, namespace_of
from disol.errors import DisolError, shown

Mask = Bool[Array, "*batch height width"]


def as_array(name: str, value: object) -> Shaped[np.ndarray, "..."]:
    """Convert nested lists, tensors and the like to one array."""
    if any(map(np.ma.is_masked, value if isinstance(value, list | tuple) else (value,))):
        raise DisolError(f"{name} must be an array without masked values. Fill them, as in array.filled(0).")
    try:
        return np.asarray(value)
    except ValueError:
        raise DisolError(
            f"{name} must be one array, got rows or cases of different sizes. Give all of them one shape."
        ) from None
    except (TypeError, RuntimeError) as error:  # of tensors that are not on the CPU, need gradients, or are bfloat16
        raise DisolError(
            f"{name} must be what NumPy reads as an array, got a {type(value).__name__}: {str(error).rstrip('.')}. "
            "Pass tensors as tensor.detach().float().cpu()."
        ) from None


def real_numbers(name: str, value: object) -> Shaped[np.ndarray, "..."]:
    """Read an array of real numbers, in the precision it was given in."""
    array = as_array(name, value)
    if array.dtype.kind not in "biuf":
        raise DisolError(f"{name} must hold real numbers, got dtype {array.dtype}. Convert it to float.")
    if array.dtype.itemsize > 8 or array.dtype.str[1:] in ("u2", "u4", "u8"):  # which torch hardly supports
        return as_float(name, array)
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def doubles(name: str, value: object) -> Float[np.ndarray, "..."]:
    """Read an array of finite numbers in double precision."""
    return as_float(name, real_numbers(name, value))


def require_pixels(name: str, array: Shaped[Array, "..."], shape: tuple[int, ...] | None) -> None:
    """Require one value per pixel of a grid: that of the domain, once it is known."""
    if shape is None and (array.ndim != 2 or 0 in array.shape):
        raise DisolError(
            f"{name} must be an array [height, width], got shape {tuple(array.shape)}. Pass one value per pixel."
        )
    if shape is not None and tuple(array.shape) != shape:
        if array.ndim != len(shape):
            shown = tuple(array.shape)
            raise DisolError(f"{name} must be an array [height, width], got shape {shown}. Pass one value per pixel.")
        raise DisolError(
            f"{name} must have the domain's shape {shape}, got {tuple(array.shape)}. Use one grid for both."
        )


def require_finite(name: str, array: Shaped[Array, "*shape"]) -> Shaped[Array, "*shape"]:
    """Require numbers that are finite."""
    finite = array.isfinite() if is_tensor(array) else np.isfinite(array)
    if not finite.all():
        raise DisolError(f"{name} holds NaN or infinite values. Replace them; outside the domain use 0.")
    return array


def as_float(name: str, array: Shaped[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Convert finite numbers to double precision, whose range those of a longer format can exceed."""
    require_finite(name, array)
    if is_tensor(array):
        return array.double()
    with np.errstate(over="ignore", under="ignore"):
        rounded = array.astype(float)
    if array.dtype.kind == "f" and array.itemsize > rounded.itemsize:
        if not np.isfinite(rounded).all():
            largest = np.finfo(float).max
            raise DisolError(f"{name} overflows: in double precision no number exceeds {largest:.1e}. Use other units.")
        if ((rounded == 0) & (array != 0)).any():
            raise DisolError(f"{name} underflows: double precision has no number below 4.9e-324. Use other units.")
    return rounded


def as_mask(name: str, array: Shaped[Array, "*shape"]) -> Bool[Array, "*shape"]:
    """Read an array of 0 and 1."""
    mask = array != 0
    if not bool((mask == array).all()):
        other = float(require_finite(name, array)[mask != array][0])
        raise DisolError(f"{name} must hold only 0 and 1, got values such as {other:g}. Threshold it first.")
    return mask


def as_float32(
    name: str, value: Shaped[Array, "*shape"], out: Float32[Array, "*shape"] | None = None
) -> Float32[Array, "*shape"]:
    """Round numbers to float32, the precision of networks, whose range is smaller; write them to `out` if given."""
    if is_tensor(value):
        rounded = value.float() if out is None else out.copy_(value)
    else:
        rounded = np.empty(value.shape, np.float32) if out is None else out
        with np.errstate(over="ignore"):
            rounded[...] = value
    if not namespace_of(rounded).isfinite(rounded).all():
        require_finite(name, value)
        raise DisolError(
            f"{name} must not exceed {np.finfo(np.float32).max:.1e}, for networks compute in float32, "
            f"got {float(abs(value).max()):.1e}. Use other units."
        )
    return rounded


def require_inside(name: str, marked: Mask, domain: Mask) -> None:
    """Require that no marked pixel lies outside the domain."""
    outside = int((marked & ~domain).sum())
    if outside:
        raise DisolError(f"{outside} {name} pixels lie outside the domain. Set them to 0 there, or enlarge the domain.")


def flag(name: str, value: object) -> bool:
    """Read a boolean."""
    if not isinstance(value, bool | np.bool_ | int):
        raise DisolError(f"{name} must be True or False, got {shown(value)}.")
    return bool(value)


def whole_number(name: str, value: object) -> int:
    """Read a whole number: an integer that is not negative."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise DisolError(f"{name} must be a whole number, got {shown(value)}.")
    if value < 0:
        raise DisolError(f"{name} must not be negative, got {shown(value)}.")
    return int(value)


def count(name: str, value: object) -> int:
    """Read a positive integer."""
    read = whole_number(name, value)
    if read == 0:
        raise DisolError(f"{name} must be at least 1, got 0.")
    return read


def is_number(value: object) -> bool:
    """Tell whether a value is a number, of Python or of NumPy; booleans are not."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def number(name: str, value: Any) -> float:
    """Read a finite number."""
    if not is_number(value):
        raise DisolError(f"{name} must be a number, got {shown(value)}.")
    with suppress(OverflowError):  # of a whole number
        if math.isfinite(value):
            return float(value)
    raise DisolError(f"{name} must be finite, got {shown(value)}.")


def positive_number(name: str, value: object) -> float:
    """Read a finite number above 0."""
    read = number(name, value)
    if read <= 0:
        raise DisolError(f"{name} must be positive, got {value}.")
    return read


def steps_per_frame(name: str, value: object) -> int:
    """Read a number of time steps per 2 s, which is limited since all steps up to 20 s are kept."""
    read = count(name, value)
    if read > 1000:
        raise DisolError(f"{name} must be at most 1000, got {shown(value)}.")
    return read


def poisson_ratio(name: str, value: object) -> float:
    """Read a Poisson's ratio that a stable, compressible solid can have."""
    read = number(name, value)
    if not -1 < read < 0.5:
        raise DisolError(f"{name} must lie in (-1, 0.5), got {value}. Steel has 0.3.")
    return read


def is_pair(value: Any) -> bool:
    """Tell whether a value is a list, tuple or array of two."""
    return isinstance(value, Sequence | np.ndarray) and getattr(value, "ndim", 1) > 0 and len(value) == 2


def vector(name: str, value: Any) -> tuple[float, float]:
    """Read two finite numbers, along x and along y."""
    if not is_pair(value):
        raise DisolError(f"{name} must be two numbers, (along x, along y), got {shown(value)}.")
    return number(name, value[0]), number(name, value[1])
