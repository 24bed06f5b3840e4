"""Pictures of cases, of solutions, and of how far predictions are from their references."""

from disol.viz.cases import plot_case
from disol.viz.outlines import plot_outline
from disol.viz.panels import save_figure
from disol.viz.quantities import plot_quantity
from disol.viz.solutions import animate, as_html, plot_comparison, plot_solution

__all__ = [
    "animate",
    "as_html",
    "plot_case",
    "plot_comparison",
    "plot_outline",
    "plot_quantity",
    "plot_solution",
    "save_figure",
]
