"""The equations, one value per PDE.

Names are imported on first use, so that a misspelt one is reported before NumPy and SciPy are imported.
"""

from typing import TYPE_CHECKING

from disol._lazy import lazy_names

if TYPE_CHECKING:
    from disol._terms import DOMAIN as DOMAIN
    from disol._terms import FORCE as FORCE
    from disol._terms import INITIAL as INITIAL
    from disol._terms import SOURCE as SOURCE
    from disol._terms import SUPPORT as SUPPORT
    from disol._terms import TIMES as TIMES
    from disol._terms import Term as Term
    from disol.problems.problem import Problem as Problem
    from disol.problems.problem import TransientProblem as TransientProblem
    from disol.problems.table import PROBLEMS as PROBLEMS

_PUBLIC_NAMES = {
    **dict.fromkeys(("DOMAIN", "FORCE", "INITIAL", "SOURCE", "SUPPORT", "TIMES", "Term"), "._terms"),
    "PROBLEMS": "table",
    "Problem": "problem",
    "TransientProblem": "problem",
}

__all__ = [*_PUBLIC_NAMES]  # noqa: PLE0604

__getattr__ = lazy_names(__name__, _PUBLIC_NAMES)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted(_PUBLIC_NAMES)
