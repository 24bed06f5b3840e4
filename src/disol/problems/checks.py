"""What a user may hand in: every check raises one `ValueError` that says what was expected, what came, what to do."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float32, Shaped

from disol.fields import Field, Source
from disol.geometry.connected import count_parts

# What a public argument is until it has been checked, with an error that helps.
Unchecked = Any

Mask = Bool[np.ndarray, "*batch height width"]


class CaseStack(np.ndarray):
    """A term of many cases, [case, height, width]: what is checked at once, all of it or nothing."""


def whole_number(name: str, value: object) -> int:
    """Read a number that counts something: an integer from 0 on."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer):
        raise ValueError(f"{name} must be a whole number, got {value!r}. Pass an int.")
    if value < 0:
        raise ValueError(f"{name} must not be negative, got {value}. Pass an int from 0 on.")
    return int(value)


def as_array(name: str, value: object) -> Shaped[np.ndarray, "..."]:
    """See nested lists, tensors and the like as one array."""
    if np.ma.is_masked(value):
        raise ValueError(f"{name} must be an array without masked values. Fill them, as in array.filled(0).")
    try:
        return np.asarray(value)
    except ValueError:
        raise ValueError(
            f"{name} must be one array, got rows or cases of different sizes. Give all of them one shape."
        ) from None
    except (TypeError, RuntimeError) as error:  # of tensors that are not on the CPU, need gradients, or are bfloat16
        raise ValueError(
            f"{name} must be what NumPy reads as an array, got a {type(value).__name__}: {str(error).rstrip('.')}. "
            "Pass tensors as tensor.detach().float().cpu()."
        ) from None


def real_array(name: str, value: object, shape: tuple[int, ...] | None) -> Float[np.ndarray, "*batch height width"]:
    """Read a finite array of real numbers, of one case unless it is a `CaseStack`."""
    return require_finite(name, pixel_array(name, value, shape)).astype(float)


def pixel_array(name: str, value: object, shape: tuple[int, ...] | None) -> Shaped[np.ndarray, "*batch height width"]:
    """Read an array of real numbers, in the precision it was given in."""
    array = as_array(name, value)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must hold real numbers, got dtype {array.dtype}. Convert it to float.")
    if array.ndim != (3 if isinstance(value, CaseStack) else 2) or array.size == 0:
        raise ValueError(f"{name} must be an array [height, width], got shape {array.shape}. Pass one value per pixel.")
    if shape is not None and array.shape != shape:
        raise ValueError(f"{name} must have the domain's shape {shape}, got {array.shape}. Use one grid for both.")
    return array


def require_finite(name: str, array: Shaped[np.ndarray, "*shape"]) -> Shaped[np.ndarray, "*shape"]:
    """Require numbers that are finite."""
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds NaN or infinite values. Replace them; outside the domain use 0.")
    return array


def float32_array(
    name: str, value: Shaped[np.ndarray, "*shape"], out: Float32[np.ndarray, "*shape"] | None = None
) -> Float32[np.ndarray, "*shape"]:
    """Round numbers to the precision of networks, whose range is smaller; they may be written to an array."""
    rounded = np.empty(value.shape, np.float32) if out is None else out
    try:
        with np.errstate(over="raise"):
            rounded[...] = value
        return rounded
    except FloatingPointError:
        raise ValueError(
            f"{name} must not exceed {np.finfo(np.float32).max:.1e}, for networks compute in float32, "
            f"got {np.abs(value).max():.1e}. Use other units."
        ) from None


def mask_array(name: str, value: object, shape: tuple[int, ...] | None = None) -> Mask:
    """Read an array of 0 and 1."""
    array = pixel_array(name, value, shape)
    mask = array != 0
    if not np.array_equal(mask, array):
        other = float(require_finite(name, array)[mask != array][0])
        raise ValueError(f"{name} must hold only 0 and 1, got values such as {other:g}. Threshold it first.")
    return mask


def domain_array(value: object) -> Mask:
    """Read a domain: a mask that is not empty."""
    domain = mask_array("domain", value)
    if not domain.any(axis=(-2, -1)).all():
        raise ValueError("domain is empty: no pixel is 1. Mark the pixels where the equation holds with 1.")
    return domain


def marker_array(name: str, value: object, domain: Mask, on_every_part: bool = False) -> Mask:
    """Read boundary markers: a mask inside the domain, with a pixel on each of its parts if asked for."""
    markers = mask_array(name, value, domain.shape)
    inside_domain(name, markers, domain)
    if on_every_part:
        count, missing = count_parts(domain, markers)
        if missing:
            raise ValueError(
                f"{missing} of {count} parts of the domain (pixels joined by sides) have no {name} pixel, so the "
                f"solution is not unique. Mark a {name} pixel on each part or remove the part."
            )
    return markers


def inside_domain(name: str, marked: Mask, domain: Mask) -> None:
    """Require that no marked pixel lies outside the domain."""
    outside = np.count_nonzero(marked > domain)
    if outside:
        raise ValueError(f"{outside} {name} pixels lie outside the domain. Set them to 0 there, or enlarge the domain.")


def source_term(name: str, value: object, domain: Mask) -> Source:
    """Read a source: a function of x and y, or one value per pixel."""
    if isinstance(value, Field) or callable(value):
        return value
    return real_array(name, value, domain.shape)


def force_array(name: str, value: object, domain: Mask) -> Float[np.ndarray, "*batch height width"]:
    """Read boundary forces: one value per pixel, 0 outside the domain."""
    force = real_array(name, value, domain.shape)
    inside_domain(name, force != 0, domain)
    return force


def count(name: str, value: object) -> int:
    """Read an integer from 1 on."""
    if whole_number(name, value) == 0:
        raise ValueError(f"{name} must be at least 1, got 0. Pass an int from 1 on.")
    return whole_number(name, value)


def number(name: str, value: object) -> float:
    """Read a finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ValueError(f"{name} must be a number, got {value!r}. Pass a float.")
    if not np.isfinite(value):
        raise ValueError(f"{name} must be finite, got {value}. Pass a finite float.")
    return float(value)


def positive_number(name: str, value: object) -> float:
    """Read a finite number above 0."""
    if number(name, value) <= 0:
        raise ValueError(f"{name} must be positive, got {value}. Pass a number above 0.")
    return number(name, value)


def poisson_ratio(name: str, value: object) -> float:
    """Read a Poisson's ratio that a stable, compressible solid can have."""
    if not -1 < number(name, value) < 0.5:
        raise ValueError(f"{name} must lie in (-1, 0.5), got {value}. Steel has 0.3.")
    return number(name, value)


def vector(name: str, value: Unchecked) -> tuple[float, float]:
    """Read two finite numbers, along x and along y."""
    if not isinstance(value, Sequence | np.ndarray) or len(value) != 2:
        raise ValueError(f"{name} must be two numbers, got {value!r}. Pass (along x, along y).")
    return number(name, value[0]), number(name, value[1])
