"""Evaluations as tables for people."""

from rich.table import Column, Table

from disol.evaluation.results import Evaluation, FileEvaluation

STATISTICS = ("mean", "median", "p95")
LABEL = max(map(len, STATISTICS))
NARROWEST = 4  # characters of a file's name in a line


def evaluation_table(evaluation: Evaluation) -> Table:
    """Return mean, median and 95th percentile over the cases of each file, and at each time."""
    metrics = shown_metrics(evaluation)
    transient = any(file.times != (None,) for file in evaluation.files)
    amplitudes = evaluation.predicts == "log-amplitude"
    headings = ["cases", "coverage", *(["time"] if transient else [])]
    numbers = [Column(name, justify="right", no_wrap=True) for name in headings]
    errors = [Column(name, justify="right", no_wrap=True) for name in metrics]
    # A column that may shrink needs a width of its own, or numbers that may not would leave it none.
    names, labels = Column("file", overflow="fold", min_width=NARROWEST), Column("", no_wrap=True, min_width=LABEL)
    table = Table(names, *numbers, labels, *errors, box=None, pad_edge=False)
    if amplitudes:
        table.add_column("correlation", justify="right", no_wrap=True)
    for file in evaluation.files:
        for frame, time in enumerate(file.times):
            whole_file = [file.name, str(len(file)), f"{file.coverage.mean():.3f}"] if frame == 0 else ["", "", ""]
            shown_time = [f"{time:g} s"] if transient else []
            for position, statistic in enumerate(STATISTICS):
                known = [*whole_file, *shown_time] if position == 0 else [""] * (len(headings) + 1)
                correlation = [f"{file.correlations[frame]:.4f}"] if amplitudes and position == 0 else []
                table.add_row(*known, statistic, *cells(file, frame, metrics, statistic), *correlation)
    return table


def shown_metrics(evaluation: Evaluation) -> list[str]:
    """Choose the errors that a table has room for in 80 columns."""
    if evaluation.predicts == "log-amplitude":
        return ["squared_log_error", "rel_amplitude_error"]
    fields = evaluation.files[0].settings.fields
    if len(fields) > 1:
        return ["rel_l2", *(f"rel_l2_{field}" for field in fields), "grid_mae"]
    return ["rel_l2", "grid_mae", "mae", "max_error"]


def cells(file: FileEvaluation, frame: int, metrics: list[str], statistic: str) -> list[str]:
    """Write one statistic of several errors."""
    return [f"{getattr(file.summaries[frame][name], statistic):.2e}" for name in metrics]
