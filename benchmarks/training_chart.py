"""Draw the cases per second of every training variant."""

from pathlib import Path

from matplotlib.figure import Figure

from disol._files import written_whole
from disol.viz.errors import COLOURS, QUIET

PICTURE = Path("../images/training-speed.png")  # from the page


def write_chart(speeds: dict[str, dict[str, float]], rival: str, path: Path) -> None:
    """Draw a bar for every variant of every problem, labelled with its speed divided by that of the rival."""
    bars = sum(map(len, speeds.values()))
    figure = Figure(figsize=(8, 0.34 * bars + 0.5 * len(speeds) + 0.6), layout="constrained")
    ratios = [len(found) for found in speeds.values()]
    grid = figure.subplots(len(speeds), 1, squeeze=False, gridspec_kw={"height_ratios": ratios})[:, 0]
    for axes, (problem, found) in zip(grid, speeds.items(), strict=True):
        names, values = list(found), list(found.values())
        colours = [QUIET if name == rival else COLOURS[0] for name in names]
        drawn = axes.barh(names, values, color=colours)
        if rival in found:
            axes.bar_label(drawn, [f"{value / found[rival]:.2f} x" for value in values], padding=4, fontsize=8)
        axes.invert_yaxis()
        axes.margins(x=0.12)
        axes.set_title(f"{problem}, cases per second of training", fontsize=10)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    with written_whole(path) as temporary:
        figure.savefig(temporary, dpi=130)
