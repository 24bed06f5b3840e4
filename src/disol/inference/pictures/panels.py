"""Panels that show what a case is given and what its fields look like."""

from functools import partial

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from disol.evaluation.pictures import Scale, exact_scale, show, signed_scale, sizes_scale
from disol.evaluation.plots import MARKER_COLOURS, Panel, add_colour_bar, mark_pixels, show_domain
from disol.grid import node_means
from disol.inference.solution import Solution

Image = Float[np.ndarray, "height width"]
Mask = Bool[np.ndarray, "height width"]
Vectors = Float[np.ndarray, "2 height width"]

SIGN_CHANGE = 0.1  # share of the largest value that both signs must reach; less is the error of a prediction
LARGEST_MOTION = 0.08  # of a deformed body in a picture, as a share of its height


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
    """Return the panel of a domain and its markers; later names are drawn over earlier ones."""
    return Panel(title, partial(show_given, solution=solution, names=names))


def show_given(axes: Axes, solution: Solution, names: tuple[str, ...]) -> None:
    """Draw a domain, its marked pixels, and what the colours mean."""
    show_domain(axes, solution.domain)
    handles = []
    for name in names:
        values = channel(solution, name)
        if values.any():
            colour = MARKER_COLOURS[name]
            mark_pixels(axes, values != 0, colour)
            label = marker_label(name, values)
            handles.append(Line2D([], [], color=colour, marker="s", markersize=4, linestyle="", label=label))
    axes.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, fontsize=7, frameon=False,
        handletextpad=0.1, columnspacing=0.8, borderaxespad=0.2,
    )  # fmt: skip


def marker_label(name: str, values: Image) -> str:
    """Say what marked pixels mean."""
    if name == "dirichlet":
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
    """Return the panel of a deformed body over its shape at rest."""
    drawn = partial(show_deformed, vectors=vectors, domain=domain, scale=scale, factor=factor)
    return Panel(f"{title}, moved × {factor:g}", drawn)


def show_deformed(axes: Axes, vectors: Vectors, domain: Mask, scale: Scale, factor: float) -> None:
    """Draw a body moved by `factor` times its displacement and coloured by |U|, over its shape at rest."""
    height, width = domain.shape
    across, down = (factor * height * node_means(component, domain) for component in vectors)
    rows, columns = np.indices((height + 1, width + 1))
    show_domain(axes, domain)
    moved = axes.pcolormesh(
        columns - 0.5 + across,
        rows - 0.5 + down,
        np.ma.masked_where(~domain, np.hypot(*vectors)),
        cmap=scale.colours,
        vmin=scale.low,
        vmax=scale.high,
        rasterized=True,
    )
    margin = LARGEST_MOTION * height
    axes.set(xlim=(-0.5 - margin, width - 0.5 + margin), ylim=(height - 0.5 + margin, -0.5 - margin))
    add_colour_bar(axes, moved)


def channel(solution: Solution, name: str) -> Float[np.ndarray, "height width"]:
    """Return an input channel."""
    return solution.channels.select(solution.inputs, name)
