"""Moving pictures of transient solutions."""

from pathlib import Path

import numpy as np
from matplotlib.animation import PillowWriter

from disol.evaluation.pictures import sizes_scale, strip
from disol.evaluation.plots import draw_panels, write_title
from disol.files import written_whole
from disol.inference.pictures.comparison import frame_errors, percent, require_one_case
from disol.inference.pictures.draw import subject
from disol.inference.pictures.panels import field_scale
from disol.inference.solution import Solution

FRAMES_PER_SECOND = 6
DPI = 100


def animate(solution: Solution, path: str | Path, with_exact: bool = True) -> None:
    """Write a GIF with one picture for each time, side by side with the exact solution unless told otherwise."""
    if solution.times is None:
        raise ValueError(f"Only a solution with times can be animated, {solution.problem} has none. Use plot().")
    if Path(path).suffix.lower() != ".gif":
        raise ValueError(f"An animation must end in .gif, got {str(path)!r}. Change the ending.")
    require_one_case(solution)
    domain, predicted, exact = solution.domain, solution.field[:, 0], solution.exact[:, 0]
    scale = field_scale(exact[:, domain])
    movies = [("predicted U", predicted, scale)]
    titles = [f"{subject(solution)}   t = {time:g} s" for time in solution.times]
    if with_exact:
        error = np.abs(predicted - exact)
        movies += [("exact U", exact, scale), ("|error|", error, sizes_scale(error[:, domain]))]
        titles = [
            f"{title}   error {percent(each)}" for title, each in zip(titles, frame_errors(solution), strict=True)
        ]
    first = [strip(frames[:1], domain, colours, [name])[0] for name, frames, colours in movies]
    figure = draw_panels([first], max(titles, key=len))
    panels = figure.axes[: len(movies)]
    for axes in panels:
        figure.colorbar(axes.images[0], ax=axes, fraction=0.045, pad=0.03).ax.tick_params(labelsize=6)
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # places are settled: panels must not move from picture to picture
    writer = PillowWriter(fps=FRAMES_PER_SECOND)
    with written_whole(path) as temporary, writer.saving(figure, str(temporary), DPI):
        for number, title in enumerate(titles):
            for axes, (_, frames, _) in zip(panels, movies, strict=True):
                axes.images[0].set_data(np.where(domain, frames[number], np.nan))
            write_title(figure, title, fontsize=9)
            writer.grab_frame()
