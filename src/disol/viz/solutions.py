"""Pictures of solutions: alone, beside the exact one with the error, animated, and small ones for notebooks."""

import base64
import html
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from io import BytesIO
from pathlib import Path

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from PIL import Image

from disol._files import as_path, written_whole
from disol.cases import Case
from disol.errors import DisolError
from disol.problems.problem import component_of
from disol.solutions import Solution
from disol.viz.cases import (
    given_panels,
    given_values,
    heading,
    marker_panel,
    require_one,
    wrap,
)
from disol.viz.errors import percent, relative_error
from disol.viz.panels import (
    BLANK,
    GAP,
    Mask,
    Panel,
    Scale,
    deformed_panel,
    draw_panels,
    error_panel,
    error_scale,
    field_panel,
    field_scale,
    motion_factor,
    name_strips,
    signed_scale,
    strip,
    values_scale,
    write_title,
)

MOST_TIMES = 7  # in one picture
FRAMES_PER_SECOND = 6
ANIMATION_DPI = 100
SMALL_DPI = 80  # of a picture that stands for an object in a notebook
SMALL_TIMES = 2
SMALL_CASES = 4

Frames = Float[np.ndarray, "time field height width"]
Movie = Float[np.ndarray, "time height width"]


def plot_solution(solution: Solution, *, managed: bool = True) -> Figure:
    """Draw what one case is given, and its solution.

    managed   by pyplot, so that notebooks and `plt.show()` show the figure
    """
    require_one(solution.case)
    panels = [*given_panels(solution.case), *solution_panels(solution)]
    return draw_panels(wrap(panels), heading(solution.case), managed=managed)


def plot_comparison(
    prediction: Solution, reference: Solution, title: str | None = None, *, managed: bool = True
) -> Figure:
    """Draw what one case is given, what is predicted, the exact solution, and the error, in physical values.

    title     of the picture; the problem, its equation and its grid unless given
    managed   by pyplot, so that notebooks and `plt.show()` show the figure
    """
    require_one(prediction.case)
    _require_same_case(prediction, reference)
    error = relative_error(prediction.field, reference.field)
    written = f"{title or heading(reference.case)}{GAP}relative L2 error {percent(error)}"
    if reference.case.times is not None:
        return _compare_frames(prediction, reference, written, managed)
    return draw_panels(_compare_fields(prediction, reference), written, managed=managed)


def animate(prediction: Solution, path: str | Path, reference: Solution | None = None) -> None:
    """Write a GIF with one picture for each time, side by side with the exact solution, if given, and the error."""
    case = prediction.case
    if case.times is None:
        raise DisolError(f"Only a solution with times can be animated, but {case.problem} has none. Use plot().")
    path = as_path("path", path)
    if path.suffix.lower() != ".gif":
        raise DisolError(f"An animation must end in .gif, got {str(path)!r}.")
    require_one(case)
    domain, quantity = case.domain, _quantities(case)[0]
    titles = [f"{heading(case)}{GAP}t = {time:g} s" for time in case.times]
    if reference is None:
        shown = quantity.of(frames_of(prediction))
        movies = [(quantity.symbol, shown, field_scale(shown[:, domain]))]
    else:
        _require_same_case(prediction, reference)
        movies = quantity.compare(prediction, reference, domain)
        errors = frame_errors(prediction, reference)
        titles = [f"{title}{GAP}error {percent(each)}" for title, each in zip(titles, errors, strict=True)]
    _write_movie(path, domain, movies, titles)


def as_html(shown: Case | Solution) -> str:
    """Return a small picture and two lines of text, for notebooks; of a batch, the first cases are drawn."""
    case = shown.case if isinstance(shown, Solution) else shown
    figure = draw_panels(_small_rows(shown))
    picture = BytesIO()
    figure.savefig(picture, format="png", dpi=SMALL_DPI)
    data = base64.b64encode(picture.getvalue()).decode()
    name, equation, text = (html.escape(text) for text in (case.problem.name, case.equation, repr(shown)))
    return (
        f'<div><img src="data:image/png;base64,{data}" alt="{name}" style="max-width: 100%"/><br/>'
        f"<b>{name}</b> {equation}<br/>{text}</div>"
    )


def solution_panels(solution: Solution, most_times: int = MOST_TIMES) -> list[Panel]:
    """Return the panels of one solution: its fields or, of a vector, the components and the deformed body."""
    case, domain, frames = solution.case, solution.case.domain, frames_of(solution)
    times = case.times or (None,)
    panels = []
    for place in choose_times(len(times), most_times):
        suffix = "" if times[place] is None else f", t = {times[place]:g} s"
        if not is_vector(case) or case.times is None:
            for quantity in _components(case):
                scale = quantity.scale(quantity.of(frames)[:, domain])
                panels.append(field_panel(f"{quantity.symbol}{suffix}", quantity.of(frames)[place], domain, scale))
        if is_vector(case):
            scale = values_scale(np.hypot.reduce(frames, axis=1)[:, domain])
            factor = motion_factor(frames)
            panels.append(deformed_panel(f"|U|{suffix}", frames[place], domain, scale, factor, case.length))
    return panels


def frames_of(solution: Solution) -> Frames:
    """Return the fields of one solution with a time axis, of length 1 for a steady one."""
    field = np.asarray(solution.field)
    return field if solution.case.times is not None else field[None]


def frame_errors(prediction: Solution, reference: Solution) -> list[float]:
    """Return ‖Û − U‖ / ‖U‖ at each time."""
    return [relative_error(*pair) for pair in zip(frames_of(prediction), frames_of(reference), strict=True)]


def is_vector(case: Case) -> bool:
    """Tell whether the fields are the components of one displacement."""
    return tuple(component_of(name) for name in case.problem.fields) == ("x", "y")


@dataclass(frozen=True)
class _Quantity:
    """What one image shows of all fields: a field, or the length of a vector."""

    symbol: str
    place: int | None
    component: str | None = None

    def of(self, frames: Frames) -> Movie:
        return np.hypot.reduce(frames, axis=1) if self.place is None else frames[:, self.place]

    def scale(self, values: Float[np.ndarray, "..."]) -> Scale:
        return field_scale(values) if self.component is None else signed_scale(values)

    def compare(self, prediction: Solution, reference: Solution, domain: Mask) -> list[tuple[str, Movie, Scale]]:
        """Return prediction and reference in one scale, and the size of the error, with a name for each."""
        predicted, exact = frames_of(prediction), frames_of(reference)
        error, scale = np.abs(self.of(predicted - exact)), self.scale(self.of(exact)[:, domain])
        return [
            (f"predicted {self.symbol}", self.of(predicted), scale),
            (f"exact {self.symbol}", self.of(exact), scale),
            ("|error|", error, error_scale(error[:, domain])),
        ]


def _components(case: Case) -> list[_Quantity]:
    return [
        _Quantity(name[:1].upper() + name[1:], place, component_of(name))
        for place, name in enumerate(case.problem.fields)
    ]


def _quantities(case: Case) -> list[_Quantity]:
    """Return what a picture with little room shows."""
    return [_Quantity("|U|", None)] if is_vector(case) else _components(case)


def choose_times(count: int, most: int = MOST_TIMES) -> list[int]:
    """Return the positions of at most `most` of `count` times, evenly spaced."""
    return sorted(set(np.linspace(0, count - 1, min(count, most)).round().astype(int).tolist()))


def _require_same_case(prediction: Solution, reference: Solution) -> None:
    ours, theirs = prediction.case, reference.case
    if (ours.problem.name, ours.grid, ours.times) != (theirs.problem.name, theirs.grid, theirs.times):
        raise DisolError(f"Two solutions of one case are compared, got one of {ours} and one of {theirs}.")


def _compare_fields(prediction: Solution, reference: Solution) -> list[list[Panel]]:
    """Return a row for each field; for a vector, a row with the deformed body comes first."""
    case, domain = reference.case, reference.case.domain
    given, compared = [given_panels(case)], []
    if is_vector(case):
        terms, values = case.problem.terms, given_values(case)
        (_, _, scale), _, (_, error, _) = _quantities(case)[0].compare(prediction, reference, domain)
        predicted, exact = frames_of(prediction)[0], frames_of(reference)[0]
        drawn = partial(deformed_panel, domain=domain, scale=scale, factor=motion_factor(exact))
        compared.append([drawn("predicted |U|", predicted), drawn("exact |U|", exact), error_panel(error[0], domain)])
        given += [[marker_panel(f"along {axis}", terms, values, domain, axis)] for axis in ("x", "y")]
    for quantity in _components(case):
        *fields, (_, error, _) = quantity.compare(prediction, reference, domain)
        shown = [field_panel(name, images[0], domain, scale) for name, images, scale in fields]
        compared.append([*shown, error_panel(error[0], domain)])
    width = len(given[0])
    padded = [[*row, *[BLANK] * (width - len(row))] for row in [*given, *[[]] * (len(compared) - len(given))]]
    return [[*left, *right] for left, right in zip(padded, compared, strict=True)]


def _compare_frames(prediction: Solution, reference: Solution, title: str, managed: bool) -> Figure:
    """Draw a transient case as strips of times; each strip has one scale for all of them."""
    case, domain = reference.case, reference.case.domain
    times, errors = case.times or (), frame_errors(prediction, reference)
    places = choose_times(len(times))
    titles = [f"t = {times[place]:g} s, {percent(errors[place])}" for place in places]
    strips = [each for quantity in _quantities(case) for each in quantity.compare(prediction, reference, domain)]
    given = pad_rows(given_panels(case), len(strips))
    rows = [
        [*left, *strip([images[place] for place in places], domain, scale, None if row else titles)]
        for row, (left, (_, images, scale)) in enumerate(zip(given, strips, strict=True))
    ]
    figure = draw_panels(rows, title, managed=managed)
    name_strips(figure, [name for name, _, _ in strips], columns=len(rows[0]), first=len(given[0]))
    return figure


def pad_rows(panels: list[Panel], count: int) -> list[list[Panel]]:
    """Spread panels over `count` rows of one length, padded with blanks."""
    columns = -(-len(panels) // count)
    filled = [*panels, *[BLANK] * (columns * count - len(panels))]
    return [filled[start : start + columns] for start in range(0, len(filled), columns)]


def _small_rows(shown: Case | Solution) -> list[list[Panel]]:
    """Return one case in a row; of a batch, what each case is given in a column, or the solutions in a row."""
    if not shown.is_batch:
        given = given_panels(shown.case if isinstance(shown, Solution) else shown)
        return [[*given, *solution_panels(shown, SMALL_TIMES)] if isinstance(shown, Solution) else given]
    if isinstance(shown, Solution):
        return [[solution_panels(piece, SMALL_TIMES)[-1] for piece in shown[:SMALL_CASES]]]
    return [list(row) for row in zip(*(given_panels(piece) for piece in shown[:SMALL_CASES]), strict=True)]


def _write_movie(path: str | Path, domain: Mask, movies: list[tuple[str, Movie, Scale]], titles: list[str]) -> None:
    first = [strip([frames[0]], domain, scale, [name])[0] for name, frames, scale in movies]
    figure = draw_panels([first], max(titles, key=len))
    panels = figure.axes[: len(movies)]
    for axes in panels:
        figure.colorbar(axes.images[0], ax=axes, fraction=0.045, pad=0.03).ax.tick_params(labelsize=6)
    figure.set_dpi(ANIMATION_DPI)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the layout is settled: panels must not move from frame to frame
    canvas = import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    pictures, changing = [], [*panels, *figure.texts]
    for artist in changing:
        artist.set_animated(True)
    canvas.draw()
    unchanging = canvas.copy_from_bbox(figure.bbox)  # colour bars, which take as long to draw as all else
    for number, title in enumerate(titles):
        canvas.restore_region(unchanging)
        for axes, (_, frames, _) in zip(panels, movies, strict=True):
            axes.images[0].set_data(np.where(domain, frames[number], np.nan))
        write_title(figure, title, fontsize=9)
        for artist in changing:
            figure.draw_artist(artist)
        pictures.append(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB"))
    with written_whole(path) as temporary:
        pictures[0].save(
            temporary, save_all=True, append_images=pictures[1:], duration=1000 // FRAMES_PER_SECOND, loop=0
        )
