"""The errors that a shipped model says it has: of each test in its `metrics.json`, at each time."""

from typing import Any

from disol.problems.heat import TRAINED_UNTIL


def frames_of(test: dict[str, Any]) -> list[tuple[float | None, dict[str, Any]]]:
    """Return the time and the metrics of each frame; a steady problem has one, without a time."""
    if "frames" in test:
        return [(frame["time"], frame["metrics"]) for frame in test["frames"]]
    return [(None, test["metrics"])]


def headline(test: dict[str, Any], metric: str = "rel_l2", statistic: str = "mean") -> float | None:
    """Return one number for a test: of a transient problem the mean over the times of training."""
    frames = frames_of(test)
    trained = [metrics for time, metrics in frames if time is None or time <= TRAINED_UNTIL]
    found = [metrics[metric][statistic] for metrics in trained or [metrics for _, metrics in frames]]
    return None if None in found else sum(found) / len(found)
