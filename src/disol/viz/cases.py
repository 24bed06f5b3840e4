"""Pictures of what a case is given: its domain with marked pixels, and its fields; kinds of terms own their colours."""

from collections.abc import Collection, Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from disol._terms import Term
from disol.cases import Case
from disol.cases.conditions import pixels_along
from disol.errors import DisolError
from disol.viz.panels import GAP, Image, Marking, Mask, Panel, draw_panels, field_panel, show_marked

CLAMP_COLOUR = "#e84fd0"  # of pixels that are held along both axes
STATED_COLOURS = {"flux": "#edae49", "convection": "#66a182"}
MOST_COLUMNS = 5


def plot_case(case: Case, *, managed: bool = True) -> Figure:
    """Draw what one case is given.

    managed   by pyplot, so that notebooks and `plt.show()` show the figure
    """
    require_one(case)
    return draw_panels(wrap(given_panels(case)), heading(case), managed=managed)


def require_one(case: Case) -> None:
    """Refuse a batch."""
    if case.is_batch:
        raise DisolError(f"One case is shown at a time, got a batch of {len(case)}. Choose one of them, as in [0].")


def heading(case: Case) -> str:
    """Describe what is solved, in one line."""
    shift = f", shift {case.shift}" if case.shift else ""
    drawn = [] if case.seed is None else [f"seed {case.seed}, index {case.index}{shift}"]
    where = ", true boundary" if case.conventions.true_boundary else " pixels"
    return GAP.join([case.problem.name, case.equation, *drawn, f"{case.grid.height} x {case.grid.width}{where}"])


def wrap(panels: Sequence[Panel]) -> list[Sequence[Panel]]:
    """Break a row that is too long into rows of nearly equal length."""
    count = -(-len(panels) // MOST_COLUMNS)
    columns = -(-len(panels) // count)
    return [panels[start : start + columns] for start in range(0, len(panels), columns)]


def given_panels(case: Case) -> list[Panel]:
    """Return the panels of all that one case is given."""
    terms, values = case.problem.terms, given_values(case)
    shown = [term for term in terms if is_marker(term)]
    held = {each.argument for each in case.stated if not each.is_plain}
    markings = [*stated_markings(case), *find_markings(shown, values, held)]
    first = Panel("domain", partial(show_marked, domain=case.domain, markings=markings))
    return [first, *field_panels(terms, values, case.domain)]


def stated_markings(case: Case) -> list[Marking]:
    """Return what is stated on parts of the boundary besides the terms of a problem: fluxes and convection."""
    markings = []
    for name, colour in STATED_COLOURS.items():
        own = [each for each in case.stated if each.argument == name]
        pixels = [pixels_along(case.region, each.arcs, case.domain) for each in own]
        if pixels:
            markings.append(Marking(np.logical_or.reduce(pixels), colour, name))
    return markings


def given_values(case: Case) -> dict[str, Image]:
    """Return what a picture shows of the terms of one case, by name."""
    shown = [term for term in case.problem.terms if is_marker(term) or is_field(term)]
    return {term.name: np.asarray(case.problem.channel(term, case.terms, case.conventions)) for term in shown}


def is_marker(term: Term) -> bool:
    """Tell whether a term marks pixels."""
    return bool(term.kind.colours)


def is_field(term: Term) -> bool:
    """Tell whether a term has a value at every pixel."""
    return not term.kind.colours and term.kind.storage == "float32"


def field_panels(terms: Sequence[Term], values: Mapping[str, Image], domain: Mask) -> list[Panel]:
    """Return the panels of the fields that are given."""
    given = [(term, np.asarray(values[term.name], dtype=float)) for term in terms if is_field(term)]
    return [field_panel(term.kind.label(term, field), field, domain) for term, field in given]


def marker_panel(
    title: str, terms: Sequence[Term], values: Mapping[str, Image], domain: Mask, component: str | None = None
) -> Panel:
    """Return the panel of a domain with what is marked on it: all, or what belongs to one component."""
    shown = [term for term in terms if is_marker(term) and component in (None, term.component)]
    return Panel(title, partial(show_marked, domain=domain, markings=find_markings(shown, values)))


def find_markings(terms: Sequence[Term], values: Mapping[str, Image], valued: Collection[str] = ()) -> list[Marking]:
    """Return what to draw, loads first, so that supports are drawn over them.

    Pixels that are held along both axes have a colour of their own, since one support would hide the other.

    valued   supports with prescribed values other than zero
    """
    supports = [term for term in terms if not term.kind.is_load]
    marked = {term.name: values[term.name] != 0 for term in terms}
    clamped = [term for term in supports if term.component is not None]
    clamps = np.logical_and.reduce([marked[term.name] for term in clamped]) if len(clamped) > 1 else None
    markings = []
    for term in sorted(terms, key=lambda term: not term.kind.is_load):
        own = marked[term.name] if clamps is None or term not in clamped else marked[term.name] & ~clamps
        label = term.kind.label(term, values[term.name])
        label = label.replace("= 0", "given") if term.name in valued else label
        markings.append(Marking(own, term.kind.colours[term.component], label))
    if clamps is not None:
        is_zero = not any(term.name in valued for term in clamped)
        markings.append(Marking(clamps, CLAMP_COLOUR, "U = 0" if is_zero else "U given"))
    return [marking for marking in markings if marking.pixels.any()]
