"""Panels that show what a case is given and what its fields look like."""

from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from disol.evaluation.pictures import Marking, Scale, exact_scale, show, show_marked, signed_scale, sizes_scale
from disol.evaluation.plots import LARGEST_MOTION, Panel, show_deformed
from disol.grid import node_means
from disol.inference.solution import Solution

Image = Float[np.ndarray, "height width"]
Mask = Bool[np.ndarray, "height width"]
Vectors = Float[np.ndarray, "2 height width"]

SIGN_CHANGE = 0.1  # share of the largest value that both signs must reach; less is the error of a prediction


def field_scale(values: Float[np.ndarray, "..."]) -> Scale:
    """Span the values: from 0 in one direction, or in both with white at 0 where they change sign."""
    size = float(np.abs(values).max(initial=0.0))
    changes_sign = min(-values.min(), values.max()) > SIGN_CHANGE * size
    return signed_scale(values, 0.0) if changes_sign else exact_scale(values)


def field_panel(title: str, field: Image, domain: Mask, scale: Scale | None = None) -> Panel:
    """Return the panel of a field with its colour bar."""
    chosen = field_scale(field[domain]) if scale is None else scale
    return Panel(title, partial(show, field=field, domain=domain, scale=chosen, bar=True))


def error_panel(error: Image, domain: Mask) -> Panel:
    """Return the panel of the size of an error."""
    return field_panel(f"|error|, at most {error[domain].max():.2g}", error, domain, sizes_scale(error[domain]))


def given_field(solution: Solution, name: str, symbol: str) -> Panel:
    """Return the panel of an input field."""
    return field_panel(f"{name} {symbol}", channel(solution, name).astype(float), solution.domain)


def given_panel(solution: Solution, title: str, names: tuple[str, ...]) -> Panel:
    """Return the panel of a domain and its markers, if there are any; later names are drawn over earlier ones."""
    given = {name: channel(solution, name) for name in names}
    if {"fix_x", "fix_y"} <= given.keys():
        given |= clamps_apart(given["fix_x"], given["fix_y"])
    markings = [
        Marking(name, values != 0, marker_label(name, values)) for name, values in given.items() if values.any()
    ]
    return Panel(title, partial(show_marked, domain=solution.domain, markings=markings, legend_gap=0.2))


def clamps_apart(fix_x: Image, fix_y: Image) -> dict[str, Image]:
    """Part the supports along x, along y and along both, of which one colour would hide another."""
    both = (fix_x != 0) & (fix_y != 0)
    return {"fix_x": fix_x * ~both, "fix_y": fix_y * ~both, "clamp": both.astype(fix_x.dtype)}


def marker_label(name: str, values: Image) -> str:
    """Say what marked pixels mean."""
    if name in ("dirichlet", "clamp"):
        return "U = 0"
    if name.startswith("fix"):
        return f"U_{name[-1]} = 0"
    forces = np.unique(values[values != 0])
    arrows = {"force_x": ("←", "→"), "force_y": ("↑", "↓")}[name]
    directions = "".join(arrow for arrow, there in zip(arrows, (forces < 0, forces > 0), strict=True) if there.any())
    sizes = f"{np.abs(forces).min():g}" if np.ptp(np.abs(forces)) == 0 else "several sizes"
    return f"force {directions} {sizes}"


def motion_scale(vectors: Vectors) -> float:
    """Return the factor, a round number, by which displacements are exaggerated."""
    factor = LARGEST_MOTION / (float(np.hypot(*vectors).max()) or 1.0)
    return float(f"{factor:.1g}")


def deformed_panel(title: str, vectors: Vectors, domain: Mask, scale: Scale, factor: float) -> Panel:
    """Return the panel of a body moved by `factor` times its displacement, over its shape at rest."""
    moved = factor * np.stack([node_means(component, domain) for component in vectors])
    colours: dict[str, Any] = {"cmap": scale.colours, "vmin": scale.low, "vmax": scale.high, "rasterized": True}
    drawn = partial(show_deformed, vectors=vectors, moved=moved, domain=domain, **colours)
    return Panel(f"{title}, moved × {factor:g}", drawn)


def channel(solution: Solution, name: str) -> Float[np.ndarray, "height width"]:
    """Return an input channel."""
    return solution.channels.select(solution.inputs, name)
