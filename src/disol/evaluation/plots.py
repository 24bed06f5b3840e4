"""Pictures of cases and their solutions."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from disol.problems import Case, Exact

Image = Float[np.ndarray, "height width"]
Mask = Bool[np.ndarray, "height width"]
Vectors = Float[np.ndarray, "2 height width"]
NodeVectors = Float[np.ndarray, "2 rows columns"]

DOMAIN_COLOUR = "#d9dee6"
MARKER_COLOURS = {
    "dirichlet": "#d1495b",
    "fix_x": "#d1495b",
    "fix_y": "#00798c",
    "clamp": "#e84fd0",  # both of them
    "force_x": "#edae49",
    "force_y": "#7b4fa3",
}
PANEL = 2.3  # inches
GAP = "   "  # between the parts of a title
LARGEST_MOTION = 0.08  # of a deformed body, as a share of the grid's height


@dataclass(frozen=True)
class Panel:
    """One square of a picture."""

    title: str
    draw: Callable[[Axes], None]


def show_domain(axes: Axes, domain: Mask) -> None:
    """Draw a domain in grey."""
    axes.imshow(np.where(domain, 1.0, np.nan), cmap=ListedColormap([DOMAIN_COLOUR]), interpolation="nearest")


def mark_pixels(axes: Axes, marked: Mask, colour: str) -> None:
    """Draw marked pixels in a colour, at least two points wide: a pixel of a fine grid could not be seen."""
    rows, columns = np.nonzero(marked)
    size = max(2.0, 72 * PANEL / len(marked))
    axes.scatter(columns, rows, s=size**2, marker="s", color=colour, linewidths=0)


def show_markers(axes: Axes, domain: Mask, marked: Mask, colour: str) -> None:
    """Draw a domain in grey and its marked boundary pixels in a colour."""
    show_domain(axes, domain)
    mark_pixels(axes, marked, colour)


def add_colour_bar(axes: Axes, image: ScalarMappable) -> None:
    """Put a small scale beside a panel."""
    colour_bar = axes.figure.colorbar(image, ax=axes, fraction=0.045, pad=0.03)
    colour_bar.ax.tick_params(labelsize=6)
    colour_bar.formatter.set_powerlimits((-2, 3))  # type: ignore[attr-defined]
    colour_bar.ax.yaxis.get_offset_text().set_fontsize(6)


def show_field(axes: Axes, field: Image, domain: Mask, signed: bool = False, scale: bool = True) -> None:
    """Draw a field on its domain, a signed one with white at 0, and its scale."""
    shown = np.where(domain, field, np.nan)
    size = float(np.nanmax(np.abs(shown))) or 1.0
    colours = {"cmap": "RdBu_r", "vmin": -size, "vmax": size} if signed else {"cmap": "viridis"}
    image = axes.imshow(shown, **colours)
    if scale:
        add_colour_bar(axes, image)


def show_displacement(axes: Axes, exact: Exact) -> None:
    """Draw a deformed body, moved by at most 8 % of the grid and coloured by |U|, over its shape at rest."""
    factor = LARGEST_MOTION / (float(np.hypot(*exact.field).max()) or 1.0)
    show_deformed(axes, exact.field, factor * exact.nodes, exact.domain)


def show_deformed(axes: Axes, vectors: Vectors, moved: NodeVectors, domain: Mask, **colours: Any) -> None:
    """Draw a body with moved nodes (by heights of the grid), coloured by |U| of its pixels, over its shape at rest."""
    height, width = domain.shape
    across, down = height * moved
    rows, columns = np.indices((height + 1, width + 1))
    show_domain(axes, domain)
    sizes = np.ma.masked_where(~domain, np.hypot(*vectors))
    body = axes.pcolormesh(columns - 0.5 + across, rows - 0.5 + down, sizes, **{"cmap": "viridis"} | colours)
    margin = LARGEST_MOTION * height
    axes.set(xlim=(-0.5 - margin, width - 0.5 + margin), ylim=(height - 0.5 + margin, -0.5 - margin))
    add_colour_bar(axes, body)


def input_panels(case: Case) -> list[Panel]:
    """Return the panels that show what a case is given."""
    domain = case.terms["domain"]
    panels = []
    for name, colour in MARKER_COLOURS.items():
        if name in case.channels:
            values = case.channel(name)
            force = f" = {values.sum() / np.abs(values).sum():+.0f}" if name.startswith("force") else ""
            shown = partial(show_markers, domain=domain, marked=values != 0, colour=colour)
            panels.append(Panel(name + force, shown))
    for name in ("source", "initial"):
        if name in case.channels:
            panels.append(Panel(name, partial(show_field, field=case.channel(name), domain=domain)))
    return panels


def solution_panels(exact: Exact) -> list[Panel]:
    """Return the panels that show a solution."""
    if exact.times is not None:
        return [
            Panel(f"U, t = {time:g} s", partial(show_field, field=frame[0], domain=exact.domain))
            for time, frame in zip(exact.times, exact.field, strict=True)
        ]
    if len(exact.field) == 2:
        components = [
            Panel(name, partial(show_field, field=component, domain=exact.domain, signed=True))
            for name, component in zip(("U_x", "U_y"), exact.field, strict=True)
        ]
        return [*components, Panel("deformed, |U|", partial(show_displacement, exact=exact))]
    return [Panel("solution U", partial(show_field, field=exact.field[0], domain=exact.domain))]


def draw_panels(rows: list[list[Panel]], title: str | None = None, names: list[str] | None = None) -> Figure:
    """Draw rows of panels; each row can have a name at its left."""
    columns = max(len(row) for row in rows)
    figure = Figure(figsize=(PANEL * columns, PANEL * len(rows) + (0.4 if title else 0)), layout="constrained")
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for row, axes_row in zip(rows, grid, strict=True):
        for axes in axes_row:
            axes.set(xticks=[], yticks=[])
            axes.set_frame_on(False)
        for panel, axes in zip(row, axes_row, strict=False):
            panel.draw(axes)
            axes.set_title(panel.title, fontsize=8)
            axes.set_frame_on(True)
            for spine in axes.spines.values():
                spine.set(color="#b0b6c0", linewidth=0.5)
    for name, axes_row in zip(names or [], grid, strict=False):
        axes_row[0].set_ylabel(name, fontsize=8)
    if title:
        write_title(figure, title, fontsize=10)
    return figure


def write_title(figure: Figure, title: str, fontsize: int) -> None:
    """Write a title no wider than its figure: broken where it has gaps of three spaces, then in smaller letters."""
    room = 0.98 * figure.bbox.width
    lines: list[str] = []
    for line in title.split("\n"):
        lines.append("")
        for piece in line.split(GAP):
            longer = f"{lines[-1]}{GAP}{piece}" if lines[-1] else piece
            if lines[-1] and figure.suptitle(longer, fontsize=fontsize).get_window_extent().width > room:
                lines.append(piece)
            else:
                lines[-1] = longer
    written = figure.suptitle("\n".join(lines), fontsize=fontsize)
    written.set_fontsize(fontsize * min(1.0, room / written.get_window_extent().width))


def plot_case(case: Case, exact: Exact) -> Figure:
    """Draw what a case is given and its exact solution."""
    shift = f", shift {case.shift}" if case.shift else ""
    title = f"{case.problem}   seed {case.seed}, case {case.index}{shift}   {case.resolution} x {case.resolution}"
    given, solved = input_panels(case), solution_panels(exact)
    return draw_panels([given + solved] if len(given + solved) <= 5 else [given, solved], title)
