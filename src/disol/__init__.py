"""Solve partial differential equations on changing geometries: exactly, and by learned discrete solution operators."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from disol import data as data
    from disol import evaluation as evaluation
    from disol import fem as fem
    from disol import geometry as geometry
    from disol import inference as inference
    from disol import models as models
    from disol import nn as nn
    from disol import problems as problems
    from disol import solvers as solvers
    from disol import training as training
    from disol.inference import Model as Model
    from disol.inference import Solution as Solution
    from disol.inference import list_pretrained as list_pretrained
    from disol.inference import load as load
    from disol.models import MODELS as MODELS
    from disol.models import create_model as create_model
    from disol.models import list_models as list_models
    from disol.problems import PROBLEMS as PROBLEMS
    from disol.problems import Case as Case
    from disol.problems import Exact as Exact
    from disol.problems import Problem as Problem
    from disol.problems import draw as draw
    from disol.problems import solve_exact as solve_exact

# Where each public name lives. They are imported on first use, so that `import disol` is quick and needs no torch.
PUBLIC_NAMES = {
    "MODELS": "disol.models",
    "Model": "disol.inference",
    "Solution": "disol.inference",
    "create_model": "disol.models",
    "list_models": "disol.models",
    "list_pretrained": "disol.inference",
    "load": "disol.inference",
    "PROBLEMS": "disol.problems",
    "Case": "disol.problems",
    "Exact": "disol.problems",
    "Problem": "disol.problems",
    "draw": "disol.problems",
    "solve_exact": "disol.problems",
}

SUBPACKAGES = (
    "data",
    "evaluation",
    "fem",
    "geometry",
    "inference",
    "models",
    "nn",
    "problems",
    "solvers",
    "training",
)

__all__ = [*PUBLIC_NAMES]  # noqa: PLE0604

try:
    __version__ = version("disol")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+source"


def __getattr__(name: str) -> object:
    """Import a public name or a subpackage when it is first asked for."""
    if name in SUBPACKAGES:
        return import_module(f"disol.{name}")
    if name not in PUBLIC_NAMES:
        raise AttributeError(f"disol has no {name!r}. It has {', '.join([*PUBLIC_NAMES, *SUBPACKAGES])}.")
    value = getattr(import_module(PUBLIC_NAMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names and the subpackages."""
    return sorted([*PUBLIC_NAMES, *SUBPACKAGES, "__version__"])
