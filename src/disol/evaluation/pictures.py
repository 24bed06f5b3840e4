"""Pictures of cases with their predictions: what is given, the exact pattern, the predicted one, and the error."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import matplotlib
import numpy as np
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from disol.evaluation.plots import (
    MARKER_COLOURS,
    Panel,
    add_colour_bar,
    draw_panels,
    mark_pixels,
    show_domain,
    show_field,
)
from disol.evaluation.results import Example, FileEvaluation

Image = Float[np.ndarray, "height width"]
Mask = Bool[np.ndarray, "height width"]
Vectors = Float[np.ndarray, "field height width"]
Values = Float[np.ndarray, "..."]

MOST_TIMES = 7  # in one strip
# Ends of a colour bar, by whether values lie below and above it.
EXTENSIONS = {(False, False): "neither", (True, False): "min", (False, True): "max", (True, True): "both"}


@dataclass(frozen=True)
class Scale:
    """A range of values and its colours."""

    low: float
    high: float
    colours: str


@dataclass(frozen=True, eq=False)
class Marking:
    """Marked pixels of a channel, and what they mean."""

    channel: str
    pixels: Mask
    label: str


def draw_examples(file: FileEvaluation) -> Iterator[tuple[str, Figure]]:
    """Draw the best, median and worst cases by name: scalar fields in one picture, others in one for each case."""
    if not file.examples:
        return
    if not file.settings.times and len(file.settings.fields) == 1:
        yield "examples", draw_scalars(file)
        return
    for example in file.examples:
        yield example.rank, draw_frames(file, example) if file.settings.times else draw_components(file, example)


def draw_scalars(file: FileEvaluation) -> Figure:
    """Draw a case in each row."""
    rows, names = [], []
    for example in file.examples:
        exact, prediction = example.exact[0, 0], example.prediction[0, 0]
        scale = exact_scale(exact[example.domain])
        given = [marker_panel(example, ("dirichlet",)), given_field(example, "source")]
        rows.append([*given, *comparison("u", exact, prediction, np.abs(prediction - exact), example.domain, scale)])
        names.append(example_title(example).replace(", ", "\n"))
    return draw_panels(rows, heading(file), names)


def draw_components(file: FileEvaluation, example: Example) -> Figure:
    """Draw the components of a vector field and its size, each in a row."""
    centre = 0.5 if file.settings.component_amplitudes else 0.0
    rows = []
    for position, field in enumerate(file.settings.fields):
        axis = field.removeprefix("u_")
        exact, prediction = example.exact[0, position], example.prediction[0, position]
        scale = signed_scale(exact[example.domain], centre)
        given = marker_panel(example, (f"force_{axis}", f"fix_{axis}"))
        error = np.abs(prediction - exact)
        rows.append([given, *comparison(field, exact, prediction, error, example.domain, scale)])
    exact_vectors, vectors = (
        joint_scale(pattern[0], example.amplitude) for pattern in (example.exact, example.prediction)
    )
    exact, prediction, error = (length(field) for field in (exact_vectors, vectors, vectors - exact_vectors))
    scale = exact_scale(exact[example.domain])
    known = Panel("errors of this case", partial(show_numbers, example=example, fields=file.settings.fields))
    rows.append([known, *comparison("|u|", exact, prediction, error, example.domain, scale)])
    return draw_panels(rows, f"{heading(file)}\n{example_title(example)}")


def draw_frames(file: FileEvaluation, example: Example) -> Figure:
    """Draw a transient case as strips of times: exact, predicted and error share their scale over all times."""
    count = len(file.times)
    shown = np.linspace(0, count - 1, min(count, MOST_TIMES)).round().astype(int)
    domain, exact, prediction = example.domain, example.exact[shown, 0], example.prediction[shown, 0]
    error = np.abs(prediction - exact)
    scale, error_scale = exact_scale(exact[:, domain]), sizes_scale(error[:, domain])
    titles = [f"t = {file.times[frame]:g} s\nrel_l2 {example.errors['rel_l2'][frame]:.1%}" for frame in shown]
    rows = [
        [marker_panel(example, ("dirichlet",)), *strip(exact, domain, scale, titles)],
        [given_field(example, "source"), *strip(prediction, domain, scale)],
        [given_field(example, "initial"), *strip(error, domain, error_scale)],
    ]
    figure = draw_panels(rows, f"{heading(file)}\n{example_title(example)}")
    name_strips(figure, ("exact u", "predicted u", "|error|"), columns=len(rows[0]), first=1)
    return figure


def strip(
    images: Float[np.ndarray, "frame height width"], domain: Mask, scale: Scale, titles: list[str] | None = None
) -> list[Panel]:
    """Return a panel for each time."""
    return [
        Panel(title, partial(show, field=image, domain=domain, scale=scale))
        for title, image in zip(titles or [""] * len(images), images, strict=True)
    ]


def name_strips(figure: Figure, names: Sequence[str], columns: int, first: int) -> None:
    """Give each row of a picture, from its panel number `first` on, a name and one colour bar."""
    for row, name in enumerate(names):
        axes = figure.axes[row * columns + first : (row + 1) * columns]
        axes[0].set_ylabel(name, fontsize=8)
        bar = figure.colorbar(axes[0].images[0], ax=axes, fraction=0.02, pad=0.01)
        bar.ax.tick_params(labelsize=6)


def comparison(name: str, exact: Image, prediction: Image, error: Image, domain: Mask, scale: Scale) -> list[Panel]:
    """Return the panels of exact and predicted field, in the same colours, and of the error."""
    fields = [("exact " + name, exact, scale), ("predicted " + name, prediction, scale)]
    fields.append((f"|error|, mean {error[domain].mean():.2g}", error, sizes_scale(error[domain])))
    return [
        Panel(title, partial(show, field=field, domain=domain, scale=colours, bar=True))
        for title, field, colours in fields
    ]


def show(axes: Axes, field: Image, domain: Mask, scale: Scale, bar: bool = False) -> None:
    """Draw a field in the colours of a scale; the bar has a pointed end where values lie beyond it."""
    colours = matplotlib.colormaps[scale.colours].copy()
    inside = field[domain]
    beyond = (bool((inside < scale.low).any()), bool((inside > scale.high).any()))
    colours.colorbar_extend = EXTENSIONS[beyond]  # type: ignore[assignment]
    image = axes.imshow(np.where(domain, field, np.nan), cmap=colours, vmin=scale.low, vmax=scale.high)
    if bar:
        add_colour_bar(axes, image)


def exact_scale(values: Values) -> Scale:
    """Span the exact values, 0 included: predictions that lie beyond are shown so."""
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    return Scale(low, high if high > low else low + 1.0, "viridis")


def signed_scale(values: Values, centre: float) -> Scale:
    """Span the exact values on both sides of a centre, which is white."""
    size = float(np.abs(values - centre).max()) or 1.0
    return Scale(centre - size, centre + size, "RdBu_r")


def sizes_scale(values: Values) -> Scale:
    """Span from 0 to the largest finite value."""
    finite = values[np.isfinite(values)]
    return Scale(0.0, float(finite.max(initial=0.0)) or 1.0, "magma")


def marker_panel(example: Example, names: tuple[str, ...]) -> Panel:
    """Return the panel of a domain with marked pixels; later names are drawn over earlier ones."""
    markings = [Marking(name, example.channel(name) != 0, marker_label(example, name)) for name in names]
    return Panel("domain", partial(show_marked, domain=example.domain, markings=markings))


def marker_label(example: Example, name: str) -> str:
    """Name a channel, and the direction of its force."""
    values = example.channel(name)
    return f"{name} {np.sign(values.sum()):+.0f}" if name.startswith("force") and values.any() else name


def show_marked(axes: Axes, domain: Mask, markings: Sequence[Marking], legend_gap: float = 0.5) -> None:
    """Draw a domain, its marked pixels, and below it, some font sizes away, what the colours mean."""
    show_domain(axes, domain)
    handles = []
    for marking in markings:
        colour = MARKER_COLOURS[marking.channel]
        mark_pixels(axes, marking.pixels, colour)
        handles.append(Line2D([], [], color=colour, marker="s", markersize=4, linestyle="", label=marking.label))
    axes.legend(
        handles=handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2, fontsize=7, frameon=False,
        handletextpad=0.1, columnspacing=0.8, borderaxespad=legend_gap,
    )  # fmt: skip


def given_field(example: Example, name: str) -> Panel:
    """Return the panel of an input field."""
    return Panel(name, partial(show_field, field=example.channel(name), domain=example.domain))


def joint_scale(pattern: Vectors, amplitude: Float[np.ndarray, " scale"]) -> Vectors:
    """U / max |U_c|; components that were scaled separately are scaled back by their exact amplitudes."""
    if len(amplitude) != len(pattern):
        return pattern
    share = amplitude / (amplitude.max() or 1.0)
    return share[:, None, None] * (2 * pattern - 1)


def length(vectors: Vectors) -> Image:
    """|u| at each pixel."""
    return np.sqrt((vectors**2).sum(axis=0))


def show_numbers(axes: Axes, example: Example, fields: tuple[str, ...]) -> None:
    """Write what was measured for a case."""
    lines = [f"{'':9} {'both':>8} " + " ".join(f"{field:>8}" for field in fields)]
    for name in ("rel_l2", "rel_l1", "mae", "max_error", "grid_mae"):
        columns = [name, *(f"{name}_{field}" for field in fields)]
        lines.append(f"{name:9} " + " ".join(f"{example.errors[column][0]:8.1e}" for column in columns))
    axes.set_box_aspect(1)
    axes.text(
        0.5, 0.5, "\n".join(lines), transform=axes.transAxes, ha="center", va="center", family="monospace", size=5.5
    )


def heading(file: FileEvaluation) -> str:
    """Say where cases come from."""
    side = file.settings.resolution
    return f"{file.settings.problem}   {file.name}: {len(file)} cases, {side} x {side}"


def example_title(example: Example) -> str:
    """Say which case is shown and how well it is predicted."""
    shift = f", {example.shift}" if example.shift else ""
    mean = "mean " if len(example.exact) > 1 else ""
    return f"{example.rank}: case {example.index}{shift}, {mean}rel_l2 {example.errors['rel_l2'].mean():.2%}"
