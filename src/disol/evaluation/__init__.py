"""How good solutions are, as numbers and as pictures."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from disol.evaluation import metrics as metrics
    from disol.evaluation.evaluating import evaluate as evaluate
    from disol.evaluation.reports import write_evaluation as write_evaluation
    from disol.evaluation.results import Evaluation as Evaluation
    from disol.evaluation.results import Example as Example
    from disol.evaluation.results import FileEvaluation as FileEvaluation
    from disol.evaluation.results import Summary as Summary
    from disol.evaluation.results import summarise as summarise
    from disol.evaluation.tables import evaluation_table as evaluation_table

# Where each name lives. They are imported on first use: pictures need no torch, and inference needs the metrics alone.
PUBLIC_NAMES = {
    "Evaluation": "results",
    "Example": "results",
    "FileEvaluation": "results",
    "Summary": "results",
    "evaluate": "evaluating",
    "evaluation_table": "tables",
    "metrics": "metrics",
    "summarise": "results",
    "write_evaluation": "reports",
}

__all__ = [*PUBLIC_NAMES]  # noqa: PLE0604


def __getattr__(name: str) -> object:
    """Import a name when it is first asked for."""
    if name not in PUBLIC_NAMES:
        raise AttributeError(f"disol.evaluation has no {name!r}. Its names are {', '.join(PUBLIC_NAMES)}.")
    module = import_module(f"{__name__}.{PUBLIC_NAMES[name]}")
    value = module if name == "metrics" else getattr(module, name)
    globals()[name] = value
    return value
