"""How accurate predictions are, in numbers and in pictures."""

from importlib import import_module
from typing import TYPE_CHECKING

from disol.evaluation.evaluate import evaluate
from disol.evaluation.results import Evaluation, Example, FileEvaluation, Summary, summarise

if TYPE_CHECKING:
    from disol.evaluation import metrics as metrics
    from disol.evaluation.report import write_evaluation as write_evaluation

__all__ = [
    "Evaluation",
    "Example",
    "FileEvaluation",
    "Summary",
    "evaluate",
    "metrics",
    "summarise",
    "write_evaluation",
]


def __getattr__(name: str) -> object:
    """Import on first use what needs torch or rich."""
    if name == "metrics":
        return import_module("disol.evaluation.metrics")
    if name == "write_evaluation":
        return import_module("disol.evaluation.report").write_evaluation
    raise AttributeError(f"disol.evaluation has no {name!r}. Its names are {', '.join(__all__)}.")
