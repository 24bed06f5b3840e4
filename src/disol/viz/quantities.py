"""Pictures of quantities that follow from a solution: a panel for each component, and arrows for fluxes."""

from functools import partial

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from disol.errors import DisolError, shown
from disol.solutions import Solution
from disol.viz.cases import heading, require_one
from disol.viz.panels import GAP, PANEL, Mask, Panel, draw_panels, field_panel, field_scale, show_field, values_scale
from disol.viz.solutions import choose_times

# Components of the quantities that can be drawn; those with the components of a vector also have arrows.
COMPONENTS = {
    "flux": ("x", "y"),
    "strain": ("xx", "yy", "xy"),
    "stress": ("xx", "yy", "xy"),
    "von_mises": ("",),
}
SYMBOLS = {"flux": "q", "strain": "ε", "stress": "σ", "von_mises": "von Mises stress"}
ARROWS = 16  # along the longer side of a domain
LENGTH = 0.8  # of an arrow, in distances between them
STILL = 1e-3  # of the largest vector: a smaller one has no arrow
SHARE = 0.99  # of the values, which colours span: fluxes and stresses are unbounded at the ends of supports
WIDE = 3.4  # inches, of a panel that is alone in its row


def plot_quantity(solution: Solution, name: str, *, managed: bool = True) -> Figure:
    """Draw the flux, strain, stress or von Mises stress of one solution: a row for each time, one scale for a column.

    managed   by pyplot, so that notebooks and `plt.show()` show the figure
    """
    if not isinstance(name, str) or name not in COMPONENTS:
        raise DisolError(f"A picture shows {', '.join(COMPONENTS)} of a solution, got {shown(name)}.")
    require_one(solution.case)
    values, domain, times = getattr(solution, name), solution.domain, solution.times or (None,)
    frames = values.reshape(len(times), -1, *domain.shape)
    rows = []
    for place in choose_times(len(times)):
        after = "" if times[place] is None else f", t = {times[place]:g} s"
        rows.append([Panel(f"{panel.title}{after}", panel.draw) for panel in _panels(name, frames, place, domain)])
    # A single panel is already titled with its name.
    title = heading(solution.case) + (f"{GAP}{name}" if len(rows[0]) > 1 else "")
    return draw_panels(rows, title, side=WIDE if len(rows[0]) == 1 else PANEL, managed=managed)


def _panels(
    name: str, frames: Float[np.ndarray, "time component height width"], place: int, domain: Mask
) -> list[Panel]:
    found = []
    for number, component in enumerate(COMPONENTS[name]):
        title = f"{SYMBOLS[name]}_{component}" if component else SYMBOLS[name]
        scale = field_scale(_most(frames[:, number, domain]))
        found.append(field_panel(title, frames[place, number], domain, scale))
    if COMPONENTS[name] == ("x", "y"):
        found.append(Panel(f"|{SYMBOLS[name]}|", partial(_show_arrows, frames=frames, place=place, domain=domain)))
    return found


def _most(values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Clip the few largest values."""
    limit = np.quantile(np.abs(values), SHARE)
    return np.clip(values, -limit, limit)


def _show_arrows(axes: Axes, frames: Float[np.ndarray, "time 2 height width"], place: int, domain: Mask) -> None:
    """Draw the length of vectors in colours, and their directions as arrows of one length."""
    sizes = np.hypot(frames[:, 0], frames[:, 1])
    show_field(axes, sizes[place], domain, values_scale(_most(sizes[:, domain])))
    rows, columns = np.nonzero(domain & (sizes[place] > STILL * sizes.max()))
    every = max(1, round(max(np.ptp(rows, axis=0), np.ptp(columns, axis=0)) / ARROWS)) if len(rows) else 1
    chosen = (rows % every == every // 2) & (columns % every == every // 2)
    rows, columns = rows[chosen], columns[chosen]
    across, down = frames[place][:, rows, columns] / sizes[place, rows, columns]
    axes.quiver(
        columns, rows, across, down, angles="xy", scale_units="xy", scale=1 / (LENGTH * every), pivot="middle",
        color="white", edgecolor="black", linewidth=0.3, width=0.008,
    )  # fmt: skip
