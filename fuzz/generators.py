"""The table of generators."""

from importlib import import_module

from answers import KINDS, answers, solved
from attempts import Generator
from commands import commands
from geometries import formulas, outlines, pictures, ranges
from parts import parts
from rankings import rankings
from solving import boundaries, calls, draws, predictions, relations, solve, surrogates
from stating import statements
from stored import STORES, arrays_of, checkpoints, configs, expected_pattern, generations, run_template, stores

GENERATORS: dict[str, Generator] = {
    each.__name__: each
    for each in (
        *(solve, relations, calls, draws, surrogates, predictions, boundaries),
        *(statements, parts, answers, rankings),
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
    for kind in KINDS:
        solved(kind)
    run_template()
    expected_pattern()
