"""A case as training sees it, solved exactly from its channels alone."""

import numpy as np
import torch

from disol import PROBLEMS, solve_exact

SIDE = 16


def solved(problem: str, conventions: str, inputs: np.ndarray) -> dict[str, torch.Tensor]:
    """Solve the problem that stacked channels pose, as a batch of one case."""
    data = dict(zip(PROBLEMS[problem].channels, inputs, strict=True))
    if "time" in data:
        data["times"] = [round(20.0 * float(data.pop("time")[0, 0]))]
    exact = solve_exact(problem, conventions=conventions, **data)
    pattern = exact.pattern[0] if problem == "heat" else exact.pattern
    return {
        "inputs": torch.from_numpy(inputs)[None],
        "target": torch.from_numpy(pattern).float()[None],
        "domain": torch.from_numpy(exact.domain)[None, None],
        "amplitude": torch.from_numpy(np.asarray(exact.amplitude))[None],
    }
