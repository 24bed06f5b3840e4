"""Solve partial differential equations on changing geometries: exactly, and by learned discrete solution operators."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str
    from disol import cases as cases
    from disol import comparison as comparison
    from disol import data as data
    from disol import distributions as distributions
    from disol import evaluation as evaluation
    from disol import fem as fem
    from disol import geometry as geometry
    from disol import models as models
    from disol import nn as nn
    from disol import problems as problems
    from disol import ranking as ranking
    from disol import solutions as solutions
    from disol import solvers as solvers
    from disol import surrogate as surrogate
    from disol import training as training
    from disol import viz as viz
    from disol.cases import Case as Case
    from disol.cases import draw as draw
    from disol.cases import read_case as read_case
    from disol.comparison.comparison import compare as compare
    from disol.data import CaseDataset as CaseDataset
    from disol.data.generate import generate as generate
    from disol.differentiable import solve_differentiable as solve_differentiable
    from disol.errors import DisolError as DisolError
    from disol.evaluation.evaluate import evaluate as evaluate
    from disol.models import MODELS as MODELS
    from disol.models import create_model as create_model
    from disol.models.pretrained import list_pretrained as list_pretrained
    from disol.problems import PROBLEMS as PROBLEMS
    from disol.problems import Problem as Problem
    from disol.ranking import Ranking as Ranking
    from disol.ranking import rank as rank
    from disol.solutions import Solution as Solution
    from disol.solutions import solve_adjoint as solve_adjoint
    from disol.solutions import solve_exact as solve_exact
    from disol.solutions import system as system
    from disol.surrogate import Surrogate as Surrogate
    from disol.surrogate import Verification as Verification
    from disol.surrogate import load as load
    from disol.training import train as train

# Where each public name lives. They are imported on first use, so that `import disol` is quick and needs no torch.
PUBLIC_NAMES = {
    "PROBLEMS": "disol.problems",
    "Case": "disol.cases",
    "Problem": "disol.problems",
    "Solution": "disol.solutions",
    "draw": "disol.cases",
    "read_case": "disol.cases",
    "solve_exact": "disol.solutions",
    "solve_adjoint": "disol.solutions",
    "solve_differentiable": "disol.differentiable",
    "system": "disol.solutions",
    "Ranking": "disol.ranking",
    "rank": "disol.ranking",
    "CaseDataset": "disol.data",
    "generate": "disol.data",
    "MODELS": "disol.models",
    "create_model": "disol.models",
    "list_pretrained": "disol.models.pretrained",
    "train": "disol.training",
    "evaluate": "disol.evaluation",
    "compare": "disol.comparison",
    "Surrogate": "disol.surrogate",
    "Verification": "disol.surrogate",
    "load": "disol.surrogate",
    "DisolError": "disol.errors",
}

SUBPACKAGES = (
    "cases",
    "comparison",
    "data",
    "distributions",
    "evaluation",
    "fem",
    "geometry",
    "models",
    "nn",
    "problems",
    "ranking",
    "solutions",
    "solvers",
    "surrogate",
    "training",
    "viz",
)

__all__ = [*PUBLIC_NAMES]  # noqa: PLE0604


def __getattr__(name: str) -> object:
    """Import a public name or a subpackage when it is first asked for."""
    if name == "__version__":
        return _find_version()
    if name in SUBPACKAGES:
        return import_module(f"disol.{name}")
    if name not in PUBLIC_NAMES:
        raise AttributeError(f"disol has no {name!r}. It has {', '.join([*PUBLIC_NAMES, *SUBPACKAGES])}.")
    value = getattr(import_module(PUBLIC_NAMES[name]), name)
    globals()[name] = value
    return value


def _find_version() -> str:
    """Return the version that is installed."""
    from importlib.metadata import PackageNotFoundError, version  # noqa: PLC0415  slow to import

    try:
        return version("disol")
    except PackageNotFoundError:  # run from a source tree that is not installed
        return "0+source"


def __dir__() -> list[str]:
    """List the public names and the subpackages."""
    return sorted([*PUBLIC_NAMES, *SUBPACKAGES, "__version__"])
