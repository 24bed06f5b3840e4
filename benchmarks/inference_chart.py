"""Draw how long each way to a solution takes."""

from pathlib import Path

from matplotlib.figure import Figure

from disol._files import written_whole
from disol.viz.errors import COLOURS

PICTURE = Path("images/speed.png")  # from the summary
Times = dict[str, tuple[float, float]]
UNITS = (("one case, milliseconds", 1e3), ("many cases, microseconds per case", 1e6))


def write_chart(times: dict[str, Times], markers: dict[str, str], path: Path) -> None:
    """Draw the times of every problem as marks in a row, for one case and for many, in the order of `markers`."""
    figure = Figure(figsize=(11, 0.55 * len(times) + 2.2), layout="constrained")
    known = [label for label in markers if any(label in found for found in times.values())]
    for number, (axes, (title, unit)) in enumerate(zip(figure.subplots(1, 2, sharey=True), UNITS, strict=True)):
        for position, label in enumerate(known):
            rows = [(row, found[label][number]) for row, found in enumerate(times.values()) if label in found]
            axes.plot(
                [unit * seconds for _, seconds in rows],
                [row for row, _ in rows],
                markers[label],
                color=COLOURS[position % len(COLOURS)],
                markersize=7,
                alpha=0.85,
                label=label.replace("`", ""),
            )
        axes.set_xscale("log")
        axes.set_title(title, fontsize=10)
        axes.set_yticks(range(len(times)), list(times))
        axes.set_ylim(len(times) - 0.5, -0.5)
        axes.grid(axis="x", color="#e4e7ec", linewidth=0.6)
        axes.set_axisbelow(True)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    with written_whole(path) as temporary:
        figure.savefig(temporary, dpi=130)
