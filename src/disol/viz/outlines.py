"""The outline of a case with the names of its parts, on which supports and loads can be given."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch
from matplotlib.path import Path

from disol.cases import Case
from disol.geometry.loops import name_curves
from disol.geometry.named_parts import SIDES, find_side
from disol.geometry.region import Arc, Region
from disol.viz.cases import heading, require_one
from disol.viz.panels import DOMAIN_COLOUR, new_figure

SIDE = 6.0  # inches
FRACTIONS = {10: 1.2, 4: 0.4}  # how many are written beside a loop: the least length of the loop for it
MOST_NAMED = 12  # loops; more would hide each other
SIDE_COLOURS = {"left": "#d1495b", "right": "#00798c", "top": "#edae49", "bottom": "#7b4fa3"}
LINE_COLOUR = "#30343f"
OUTSIDE = 0.03  # distance from a loop to its labels, as a share of the grid's height


def plot_outline(case: Case, *, managed: bool = True) -> Figure:
    """Draw the outline of one case in its own coordinates: loops with their names and fractions, sides in colour.

    managed   by pyplot, so that notebooks and `plt.show()` show the figure
    """
    require_one(case)
    figure = new_figure((SIDE, SIDE), managed=managed)
    axes = figure.add_subplot()
    region, frame = case.region, case.frame
    _fill(axes, case, region)
    for name in SIDES:
        for number, arc in enumerate(find_side(region, name)):
            x, y = frame.to_drawing(_points(region, arc, 200)).T
            axes.plot(x, y, color=SIDE_COLOURS[name], linewidth=4, alpha=0.7, label=None if number else name)
    for name, (number, first) in list(name_curves(region.loops).places.items())[:MOST_NAMED]:
        _name(axes, case, region, name, number, first)
    axes.set_aspect("equal")
    if not frame.upwards:
        axes.invert_yaxis()
    axes.set_xlabel("x")
    axes.set_ylabel("y")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=len(SIDES), frameon=False)
    axes.set_title(heading(case), fontsize=9)
    return figure


def _points(region: Region, arc: Arc, count: int) -> np.ndarray:
    """Return points along an arc."""
    return np.stack([region.loops[arc.loop].at(place) for place in np.linspace(arc.start, arc.end, count)])


def _fill(axes: Axes, case: Case, region: Region) -> None:
    """Colour the domain and draw its loops."""
    loops = [case.frame.to_drawing(np.concatenate([loop.points, loop.points[:1]])) for loop in region.loops]
    path = Path.make_compound_path(*(Path(points, closed=True) for points in loops))
    axes.add_patch(PathPatch(path, facecolor=DOMAIN_COLOUR, edgecolor=LINE_COLOUR, linewidth=1))
    axes.margins(0.12)
    axes.autoscale_view()


def _name(axes: Axes, case: Case, region: Region, name: str, number: int, first: float) -> None:
    """Write the name of a loop, and fractions of its length along it, outside the domain."""
    loop = region.loops[number]
    length = float(loop.arc_lengths[-1])
    count = next((count for count, least in FRACTIONS.items() if length >= least), 1)
    for place in range(count):
        fraction = place / count
        before, here, after = (loop.at(first + fraction + step) for step in (-1e-3, 0.0, 1e-3))
        way = after - before
        outward = np.array([way[1], -way[0]]) / max(float(np.hypot(*way)), 1e-300)  # the domain is on the right
        axes.plot(*case.frame.to_drawing(here), ".", color=LINE_COLOUR, markersize=5)
        x, y = case.frame.to_drawing(here + OUTSIDE * outward)
        axes.text(x, y, f"{fraction:g}", ha="center", va="center", fontsize=7, color=LINE_COLOUR)
    is_hole = loop.signed_area < 0
    middle = loop.resampled(64).mean(axis=0) if is_hole else loop.at(first) - [0.0, 2 * OUTSIDE]
    x, y = case.frame.to_drawing(middle)
    axes.text(x, y, name, ha="center", va="center", fontsize=9, fontweight="bold", color=LINE_COLOUR)
