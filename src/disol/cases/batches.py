"""The data of a batch: how many cases they hold, and splitting them where cases are read one by one."""

from collections.abc import Mapping
from typing import Any

from disol._terms import TIMES, FieldKind
from disol.cases.conditions import VALUES
from disol.errors import DisolError
from disol.problems.coefficients import depth
from disol.problems.problem import Problem


def require_one_count(counts: Mapping[str, int]) -> int:
    """Return the number of cases, which everything with a batch axis must share."""
    if len(set(counts.values())) > 1 or 0 in counts.values():
        listed = ", ".join(f"{count} of {name}" for name, count in counts.items())
        raise DisolError(
            f"The terms of a batch must have equally many cases, at least one, got {listed}. "
            "Pass arrays [batch, height, width], or leave out the batch axis of data that all cases share."
        )
    return next(iter(counts.values()))


def split_cases(problem: Problem, given: Mapping[str, Any], count: int | None) -> list[dict[str, Any]]:
    """Give each case of a batch its own data and the shared data; return no cases if nothing has a batch axis.

    count   number of cases, if it is known otherwise
    """
    batched = [name for name, value in given.items() if _has_batch_axis(problem, name, value)]
    counts = {name: len(given[name]) for name in batched} | ({} if count is None else {"the batch": count})
    cases = range(require_one_count(counts) if counts else 0)
    return [{name: value[case] if name in batched else value for name, value in given.items()} for case in cases]


def _has_batch_axis(problem: Problem, name: str, value: Any) -> bool:
    """Tell, from its axes or as a list of functions, whether unchecked data has an entry for each case.

    A coefficient with a batch axis must have all its other axes, too: those of a vector or tensor, and the pixel axes.
    """
    kinds = {term.name: term.kind for term in problem.terms}
    if name in kinds:
        is_list = isinstance(value, list | tuple) and any(map(callable, value))
        return kinds[name] is not TIMES and ((isinstance(kinds[name], FieldKind) and is_list) or depth(value) == 3)
    if name.endswith(VALUES):
        return depth(value) == 3
    return name in problem.coefficients and depth(value) in {len(axes) + 3 for axes in problem.coefficients[name].axes}
