"""The table of generators."""

from importlib import import_module

from attempts import Generator
from commands import commands
from geometries import formulas, outlines, pictures, ranges
from solving import boundaries, calls, draws, predictions, relations, solve, surrogates
from stored import STORES, arrays_of, checkpoints, configs, expected_pattern, generations, run_template, stores

GENERATORS: dict[str, Generator] = {
    each.__name__: each
    for each in (
        *(solve, relations, calls, draws, surrogates, predictions, boundaries),
        *(pictures, outlines, ranges, formulas),
        *(stores, checkpoints, configs, generations, commands),
    )
}


def prepare() -> None:
    """Import what is slow to import, and make what inputs are made of: neither is to count as time of an input."""
    for name in ("torch", "matplotlib.pyplot", "disol.surrogate.surrogate", "disol.evaluation.run", "disol.cli"):
        import_module(name)
    for name in STORES:
        arrays_of(name)
    run_template()
    expected_pattern()
