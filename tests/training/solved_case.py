"""A case as training sees it, solved exactly from its channels alone."""

import numpy as np
import torch

from disol import PROBLEMS, solve_exact
from disol._terms import TIMES
from disol.problems.problem import TRAINED_UNTIL, Problem

SIDE = 16


def solved(problem: str | Problem, conventions: str, inputs: np.ndarray) -> dict[str, torch.Tensor]:
    """Solve the problem that stacked channels pose, as a batch of one case."""
    equation = PROBLEMS[problem] if isinstance(problem, str) else problem
    data = {term.name: channel for term, channel in zip(equation.terms, inputs, strict=True)}
    for term in equation.terms:
        if term.kind is TIMES:
            data[term.name] = [round(TRAINED_UNTIL * float(data[term.name][0, 0]))]
    exact = solve_exact(problem, conventions=conventions, **data)
    pattern = exact.pattern[0] if equation.times else exact.pattern
    return {
        "inputs": torch.from_numpy(inputs)[None],
        "target": torch.from_numpy(pattern).float()[None],
        "domain": torch.from_numpy(exact.domain)[None, None],
        "amplitude": torch.from_numpy(np.asarray(exact.amplitude))[None],
    }
