"""Which cases of a file a model has seen in training, as far as its checkpoint tells."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Int

from disol.data.recipe import SPLITS, StoreSettings

DATA = "data."  # how a run names the settings of its file
FREE = ("num_cases", "resolution")  # settings that leave alone what is drawn for each case


@dataclass(frozen=True)
class SeenCases:
    """Numbers of the cases that a model and a file have in common.

    numbers            those it was trained on, in the whole of its training file
    is_training_file   the file is that one
    """

    numbers: Int[np.ndarray, " case"]
    is_training_file: bool

    def count(self, evaluated: Int[np.ndarray, " case"]) -> int:
        """Count those among the cases evaluated."""
        return int(np.isin(evaluated, self.numbers).sum())


NONE_KNOWN = SeenCases(np.zeros(0, dtype=np.int64), is_training_file=False)


def find_seen_cases(metrics: Mapping[str, Any], settings: StoreSettings) -> SeenCases:
    """Compare the settings of a file with those of the training file, where the metrics of a checkpoint hold them.

    A case is a function of its file's settings and its number: files that differ in their size or their resolution
    alone share cases, for every resolution shows the same case.
    """
    run = metrics.get("run")
    known = run if isinstance(run, dict) else {}
    trained = {name.removeprefix(DATA): value for name, value in known.items() if name.startswith(DATA)}
    stored = {name: value for name, value in asdict(settings).items() if name != "package_version"}
    free = {name: trained.get(name) for name in FREE}
    if not isinstance(free["num_cases"], int) or {**json.loads(json.dumps(stored)), **free} != trained:
        return NONE_KNOWN
    codes = replace(settings, num_cases=free["num_cases"]).split_codes
    is_training_file = all(stored[name] == free[name] for name in FREE)
    return SeenCases(np.flatnonzero(codes == SPLITS.index("train")), is_training_file)
