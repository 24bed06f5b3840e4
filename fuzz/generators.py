"""The table of generators."""

from attempts import Generator
from commands import commands
from geometries import formulas, outlines, pictures, ranges
from solving import calls, draws, relations, solve, surrogates
from stored import checkpoints, configs, generations, stores

GENERATORS: dict[str, Generator] = {
    each.__name__: each
    for each in (
        *(solve, relations, calls, draws, surrogates),
        *(pictures, outlines, ranges, formulas),
        *(stores, checkpoints, configs, generations, commands),
    )
}
