"""The errors that a shipped model lists in its `metrics.json`, for each test and each time."""

from typing import Any

from disol.problems.problem import TRAINED_UNTIL


def frames_of(test: dict[str, Any]) -> list[tuple[float | None, dict[str, Any]]]:
    """Return the time and the metrics of each frame; a steady problem has one, without a time."""
    if "frames" in test:
        return [(frame["time"], frame["metrics"]) for frame in test["frames"]]
    return [(None, test["metrics"])]


def headline(test: dict[str, Any], metric: str = "rel_l2", statistic: str = "mean") -> float | None:
    """Return one number for a test; for a transient problem, the mean over the times of training."""
    found = [metrics[metric][statistic] for _, metrics in headline_frames(test)]
    return None if None in found else sum(found) / len(found)


def headline_times(test: dict[str, Any]) -> list[float]:
    """Return the times over which the headline of a test is the mean; a steady problem has none."""
    return [time for time, _ in headline_frames(test) if time is not None]


def headline_frames(test: dict[str, Any]) -> list[tuple[float | None, dict[str, Any]]]:
    """Return the frames of a test up to the end of training, or all where there are none."""
    frames = frames_of(test)
    return [(time, metrics) for time, metrics in frames if time is None or time <= TRAINED_UNTIL] or frames
