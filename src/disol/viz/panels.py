"""Panels: fields in colours, domains with marked pixels, deformed bodies; and the figures they make up."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from io import BytesIO
from pathlib import Path

import matplotlib
import numpy as np
from jaxtyping import Bool, Float, Shaped
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from disol._files import written_whole
from disol.grid import node_means

Image = Shaped[np.ndarray, "height width"]
Mask = Bool[np.ndarray, "height width"]
Vectors = Float[np.ndarray, "2 height width"]
Values = Shaped[np.ndarray, "..."]

DOMAIN_COLOUR = "#d9dee6"
FRAME_COLOUR = "#b0b6c0"
PANEL = 2.3  # inches
DPI = 150  # of a picture in a file
GAP = "   "  # between the pieces of a title
LARGEST_MOTION = 0.08  # of a deformed body, as a share of the grid's height
SIGN_CHANGE = 0.1  # share of the largest value that both signs must reach; less is the error of a prediction
# Ends of a colour bar, by whether values lie below it and above it.
EXTENSIONS = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}


@dataclass(frozen=True)
class Panel:
    """One square of a picture."""

    title: str
    draw: Callable[[Axes], None]


BLANK = Panel("", lambda axes: axes.set_visible(False))


@dataclass(frozen=True)
class Scale:
    """A range of values and its colours."""

    low: float
    high: float
    colours: str


@dataclass(frozen=True, eq=False)
class Marking:
    """Marked pixels, their colour, and what they mean."""

    pixels: Mask
    colour: str
    label: str


def values_scale(values: Values) -> Scale:
    """Span the values, 0 included."""
    finite = values[np.isfinite(values)]
    low, high = float(finite.min(initial=0.0)), float(finite.max(initial=0.0))
    return Scale(low, high if high > low else low + 1.0, "viridis")


def signed_scale(values: Values, centre: float = 0.0) -> Scale:
    """Span the values on both sides of a centre, which is white."""
    finite = values[np.isfinite(values)]
    size = float(np.abs(finite - centre).max(initial=0.0)) or 1.0
    return Scale(centre - size, centre + size, "RdBu_r")


def field_scale(values: Values) -> Scale:
    """Span the values: from 0 in one direction, or in both with white at 0 where they change sign."""
    span = values_scale(values)
    changes_sign = min(-span.low, span.high) > SIGN_CHANGE * max(-span.low, span.high)
    return signed_scale(values) if changes_sign else span


def error_scale(errors: Values) -> Scale:
    """Span the sizes of errors from 0 on."""
    finite = errors[np.isfinite(errors)]
    return Scale(0.0, float(finite.max(initial=0.0)) or 1.0, "magma")


def field_panel(title: str, field: Image, domain: Mask, scale: Scale | None = None) -> Panel:
    """Return the panel of a field with its colour bar."""
    return Panel(title, partial(show_field, field=field, domain=domain, scale=scale))


def error_panel(error: Image, domain: Mask) -> Panel:
    """Return the panel of the size of an error."""
    title = f"|error|, at most {error[domain].max():.2g}"
    return field_panel(title, error, domain, error_scale(error[domain]))


def deformed_panel(
    title: str, vectors: Vectors, domain: Mask, scale: Scale, factor: float, length: float = 1.0
) -> Panel:
    """Return the panel of a body moved by `factor` times its displacement, on a grid of some length."""
    shown = partial(show_deformed, vectors=vectors, domain=domain, scale=scale, factor=factor)
    return Panel(f"{title}, moved × {factor * length:.2g}", shown)


def strip(images: Sequence[Image], domain: Mask, scale: Scale, titles: Sequence[str] | None = None) -> list[Panel]:
    """Return a panel for each time, in one scale; `name_strips` gives them their colour bar."""
    return [
        Panel(title, partial(show_field, field=image, domain=domain, scale=scale, bar=False))
        for title, image in zip(titles or [""] * len(images), images, strict=True)
    ]


def show_domain(axes: Axes, domain: Mask) -> None:
    """Draw a domain in grey."""
    axes.imshow(np.where(domain, 1.0, np.nan), cmap=ListedColormap([DOMAIN_COLOUR]), interpolation="nearest")


def mark_pixels(axes: Axes, marked: Mask, colour: str) -> None:
    """Draw marked pixels in a colour, at least two points wide, or single pixels of a fine grid would be invisible."""
    rows, columns = np.nonzero(marked)
    size = max(2.0, 72 * PANEL / len(marked))
    axes.scatter(columns, rows, s=size**2, marker="s", color=colour, linewidths=0)


def show_marked(axes: Axes, domain: Mask, markings: Sequence[Marking]) -> None:
    """Draw a domain with its marked pixels, and a legend of their colours below it."""
    show_domain(axes, domain)
    handles = []
    for marking in markings:
        mark_pixels(axes, marking.pixels, marking.colour)
        handles.append(
            Line2D([], [], color=marking.colour, marker="s", markersize=4, linestyle="", label=marking.label)
        )
    if handles:
        axes.legend(
            handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, fontsize=7, frameon=False,
            handletextpad=0.1, columnspacing=0.8, borderaxespad=0.2,
        )  # fmt: skip


def show_field(axes: Axes, field: Image, domain: Mask, scale: Scale | None = None, bar: bool = True) -> None:
    """Draw a field in the colours of a scale; the colour bar has a pointed end where values lie beyond it."""
    inside = field[domain]
    span = field_scale(inside) if scale is None else scale
    colours = matplotlib.colormaps[span.colours].copy()
    beyond = (bool((inside < span.low).any()), bool((inside > span.high).any()))
    colours.colorbar_extend = EXTENSIONS[beyond]  # type: ignore[assignment]
    image = axes.imshow(np.where(domain, field, np.nan), cmap=colours, vmin=span.low, vmax=span.high)
    if bar:
        add_colour_bar(axes, image)


def show_deformed(axes: Axes, vectors: Vectors, domain: Mask, scale: Scale, factor: float) -> None:
    """Draw a body moved by `factor` times its displacement, coloured by |U|, over its shape at rest."""
    height, width = domain.shape
    known = np.where(np.isfinite(vectors), vectors, 0.0)  # pixels without a displacement stay in place
    across, down = (factor * height * node_means(component, domain) for component in known)
    rows, columns = np.indices((height + 1, width + 1))
    show_domain(axes, domain)
    body = axes.pcolormesh(
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
    add_colour_bar(axes, body)


def motion_factor(vectors: Float[np.ndarray, "*time 2 height width"]) -> float:
    """Return the factor, a round number, by which displacements are exaggerated."""
    sizes = np.hypot(vectors[..., 0, :, :], vectors[..., 1, :, :])
    largest = float(sizes[np.isfinite(sizes)].max(initial=0.0))
    return float(f"{LARGEST_MOTION / (largest or 1.0):.1g}")


def add_colour_bar(axes: Axes, image: ScalarMappable) -> None:
    """Put a small colour bar beside a panel."""
    colour_bar = axes.figure.colorbar(image, ax=axes, fraction=0.045, pad=0.03)
    colour_bar.ax.tick_params(labelsize=6)
    colour_bar.formatter.set_powerlimits((-2, 3))  # type: ignore[attr-defined]
    colour_bar.ax.yaxis.get_offset_text().set_fontsize(6)
    colour_bar.ax.yaxis.set_offset_position("left")  # the power of ten takes no room beside the bar


def draw_panels(
    rows: Sequence[Sequence[Panel]],
    title: str | None = None,
    names: Sequence[str] = (),
    *,
    side: float = PANEL,
    managed: bool = False,
) -> Figure:
    """Draw rows of panels, `side` inches wide and high; each row can have a name at its left."""
    columns = max(len(row) for row in rows)
    figure = new_figure((side * columns, side * len(rows) + (0.4 if title else 0)), managed=managed)
    grid = figure.subplots(len(rows), columns, squeeze=False)
    for row, axes_row in zip(rows, grid, strict=True):
        for axes in axes_row:
            axes.set(xticks=[], yticks=[])
            axes.set_frame_on(False)
        for panel, axes in zip(row, axes_row, strict=False):
            panel.draw(axes)
            axes.set_title(panel.title, fontsize=8, parse_math=False)  # as in `write_title`
            axes.set_frame_on(True)
            for spine in axes.spines.values():
                spine.set(color=FRAME_COLOUR, linewidth=0.5)
    for name, axes_row in zip(names, grid, strict=False):
        axes_row[0].set_ylabel(name, fontsize=8)
    if title:
        write_title(figure, title, fontsize=10)
    return figure


def name_strips(figure: Figure, names: Sequence[str], columns: int, first: int) -> None:
    """Give each row of a picture, from its panel number `first` on, a name and one colour bar.

    The bar has a pointed end where values of any panel lie beyond it.
    """
    for row, name in enumerate(names):
        axes = figure.axes[row * columns + first : (row + 1) * columns]
        axes[0].set_ylabel(name, fontsize=8)
        images = [image for each in axes for image in each.images]
        ends = {image.cmap.colorbar_extend for image in images if image.cmap is not None}
        beyond = (not ends.isdisjoint({"min", "both"}), not ends.isdisjoint({"max", "both"}))
        bar = figure.colorbar(images[0], ax=axes, fraction=0.02, pad=0.01, extend=EXTENSIONS[beyond])
        bar.ax.tick_params(labelsize=6)


def write_title(figure: Figure, title: str, fontsize: int) -> None:
    """Write a title no wider than its figure: broken where it has gaps of three spaces, then in smaller letters.

    It may hold names of users, so dollars are dollars and begin no formula.
    """
    room = 0.98 * figure.bbox.width
    lines: list[str] = []
    for line in title.split("\n"):
        lines.append("")
        for piece in line.split(GAP):
            longer = f"{lines[-1]}{GAP}{piece}" if lines[-1] else piece
            if (
                lines[-1]
                and figure.suptitle(longer, fontsize=fontsize, parse_math=False).get_window_extent().width > room
            ):
                lines.append(piece)
            else:
                lines[-1] = longer
    written = figure.suptitle("\n".join(lines), fontsize=fontsize, parse_math=False)
    written.set_fontsize(fontsize * min(1.0, room / written.get_window_extent().width))


def new_figure(size: tuple[float, float], *, managed: bool) -> Figure:
    """Make a figure: one of pyplot, which notebooks and `plt.show()` show, or one freed with its last reference."""
    if not managed:
        return Figure(figsize=size, layout="constrained")
    return import_module("matplotlib.pyplot").figure(FigureClass=PyplotFigure, figsize=size, layout="constrained")


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a picture in the format that its ending says, whole or not at all."""
    picture = BytesIO()  # drawn before anything is written: image writers handle full devices badly
    figure.savefig(picture, format=Path(path).suffix[1:], dpi=DPI)
    with written_whole(path) as temporary:
        temporary.write_bytes(picture.getvalue())


class PyplotFigure(Figure):
    """A figure of pyplot that a notebook shows once.

    Notebooks show the figures of pyplot at the end of a cell. One that is also the value of the cell, as after a last
    line `case.plot()`, would be shown twice, so it is removed from pyplot once it is shown as a value.
    """

    def _ipython_display_(self) -> None:
        if "inline" in matplotlib.get_backend():
            import_module("matplotlib.pyplot").close(self)
        raise NotImplementedError  # this tells IPython to show it like any other figure
