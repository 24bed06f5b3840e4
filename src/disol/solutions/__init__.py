"""Exact solutions of cases, and what they provide: values, fluxes, totals, gradients, files.

Names are imported on first use, so that a misspelt one is reported before NumPy and SciPy are imported.
"""

from typing import TYPE_CHECKING

from disol._lazy import lazy_names

if TYPE_CHECKING:
    from disol.solutions.gradients import solve_adjoint as solve_adjoint
    from disol.solutions.solution import Solution as Solution
    from disol.solutions.solve import solve_exact as solve_exact
    from disol.solutions.solve import system as system

_PUBLIC_NAMES = {
    "Solution": "solution",
    "solve_adjoint": "gradients",
    "solve_exact": "solve",
    "system": "solve",
}

__all__ = [*_PUBLIC_NAMES]  # noqa: PLE0604

__getattr__ = lazy_names(__name__, _PUBLIC_NAMES)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(_PUBLIC_NAMES)
