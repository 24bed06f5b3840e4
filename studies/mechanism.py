r"""Why DiSOL generalises: how local a trained network is, what it carries from domain to domain, what each scale does.

    python studies/mechanism.py --cases 60 --out studies-work/mechanism --write docs/studies/mechanism.md
    python studies/mechanism.py --baseline comparisons/poisson/work/fno-lr0.003-seed0
    python studies/mechanism.py --resolution 32 --models runs/disol runs/unet --write docs/studies/mechanism_small.md

A baseline is the folder of a run, such as `disol compare` leaves in its work folder; it is shown beside the models,
which can be folders of runs, too.
What `--out` holds already is not measured again.
"""

from itertools import pairwise, product
from typing import Any

import numpy as np
from matplotlib.figure import Figure

import disol
from disol.models import count_parameters
from disol.viz.errors import COLOURS, QUIET, relative_error
from disol.viz.panels import field_panel, signed_scale
from probes import (
    ExactSensitivity,
    band_sizes,
    find_assembly,
    half_radius,
    network_sensitivity,
    profile,
    run,
    silenced,
    steps_from,
    without_far_part,
)
from study import (
    CONVENTIONS,
    SEED,
    Row,
    label_decades,
    load_models,
    measure_rows,
    pattern_error,
    publish,
    read_options,
    scientific,
    table,
)

TRAINED_ON = {"poisson": "a broad distribution", "poisson-paper": "the paper's distribution"}  # the shipped models
MODELS = tuple(TRAINED_ON)
SHIFTS = {"": "in distribution", "all": "`all`"}
RINGS = np.array([0.0, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7])  # shares of the grid
POINTS = 2  # of each case, whose sensitivities are measured
CUT = 0.25  # share of a domain that is cut off
SHORES = np.array([0, 2, 4, 8, 16, 32])  # pixels from the cut
WAVELENGTHS = np.array([32.0, 16.0, 8.0, 4.0])  # pixels
BANDS = ("over 32", "16 to 32", "8 to 16", "4 to 8", "under 4")
SOURCE = 2  # the channel


def draw_case(index: int, shift: str, resolution: int | None) -> "disol.Case":
    """Draw a case, its source as it is on the pixels: exact derivatives are of that."""
    case = disol.draw(
        "poisson", seed=SEED, index=index, shift=shift or None, resolution=resolution, conventions=CONVENTIONS
    )
    return disol.Case.from_arrays(
        "poisson", conventions=CONVENTIONS, domain=case.domain, dirichlet=case.terms["dirichlet"],
        source=case.channel("source").astype(float),
    )  # fmt: skip


def choose_pixels(case: "disol.Case", index: int) -> list[tuple[int, int]]:
    """Choose pixels of the domain that are not held."""
    free = np.argwhere(case.domain & ~case.terms["dirichlet"])
    chosen = np.random.default_rng((SEED, index)).choice(len(free), POINTS, replace=False)
    return [(int(row), int(column)) for row, column in free[chosen]]


def measure_locality(case: "disol.Case", pixels: list[tuple[int, int]], models: dict[str, "disol.Surrogate"]) -> Row:
    """Compare |∂u(x)/∂f(y)| of networks with that of the exact pattern, ring by ring about x."""
    exact, found = ExactSensitivity(case), []
    for pixel in pixels:
        maps = {"exact": exact.pattern(pixel)}
        maps |= {name: network_sensitivity(model.network, case.inputs, SOURCE, pixel) for name, model in models.items()}
        found.append(
            {
                name: {
                    "profile": profile(slope, case.domain, pixel, RINGS),
                    "half": half_radius(slope * case.domain, pixel),
                    "error": relative_error(slope[case.domain], maps["exact"][case.domain]),
                    "outside": float(np.abs(slope[~case.domain]).sum() / np.abs(slope).sum()),
                }
                for name, slope in maps.items()
            }
        )
    return {"points": found}


def measure_transfer(case: "disol.Case", models: dict[str, "disol.Surrogate"]) -> Row:
    """Cut off a part of a domain; compare how networks and the exact solution change on what both domains share."""
    smaller = without_far_part(case, CUT)
    shared = smaller.domain
    whole, part = disol.solve_exact(case), disol.solve_exact(smaller)
    ratio = float(part.amplitude) / float(whole.amplitude)  # both in units of the whole domain's amplitude
    exact = ratio * part.pattern[0] - whole.pattern[0]
    shore = steps_from(case.domain & ~shared, case.domain) - 1  # 0 for the first pixels that are kept
    place = np.where(shared, np.digitize(shore, SHORES) - 1, -1)
    found: Row = {"exact": {"shores": _by_shore(exact, place), "size": _size(exact, shared)}}
    reference = _size(whole.pattern[0], shared)
    for name, model in models.items():
        before, after = (model.predict_pattern(each.inputs[None])[0, 0].astype(float) for each in (case, smaller))
        change = ratio * after - before
        found[name] = {
            "shores": _by_shore(change, place),
            "error": relative_error(change[shared], exact[shared]),
            "size": _size(change, shared),
            "before": pattern_error(before, whole.pattern[0], shared),
            "after": pattern_error(after, part.pattern[0], shared),
        }
    return {"changes": found, "reference": reference}


def _size(field: np.ndarray, domain: np.ndarray) -> float:
    return float(np.linalg.norm(field[domain]))


def _by_shore(field: np.ndarray, place: np.ndarray) -> list[float]:
    """Return the root mean square of a field in every band of distances; NaN for an empty one."""
    return [
        float(np.sqrt((field[place == number] ** 2).mean())) if (place == number).any() else float("nan")
        for number in range(len(SHORES))
    ]


def measure_scales(case: "disol.Case", models: dict[str, "disol.Surrogate"]) -> Row:
    """Silence one scale after the other; return the change of the prediction by wavelength, as a share of its own."""
    exact, found = disol.solve_exact(case).pattern, {}
    for name, model in models.items():
        assembly = find_assembly(model.network)
        if assembly is None:
            continue
        whole = run(model.network, case.inputs)
        own, levels = band_sizes(whole, case.domain, WAVELENGTHS), []
        for level in range(len(assembly.encoder)):
            with silenced(assembly, level):
                without = run(model.network, case.inputs)
            levels.append(
                {
                    "bands": (band_sizes(without - whole, case.domain, WAVELENGTHS) / own).tolist(),
                    "error": pattern_error(without, exact[0], case.domain),
                }
            )
        found[name] = {"error": pattern_error(whole, exact[0], case.domain), "levels": levels}
    return {"scales": found}


def measure(row: Row, models: dict[str, "disol.Surrogate"]) -> Row:
    """Take all three measures of one case."""
    case = draw_case(row["index"], row["shift"], row["resolution"])
    pixels = choose_pixels(case, row["index"])
    return measure_locality(case, pixels, models) | measure_transfer(case, models) | measure_scales(case, models)


def summarise(rows: list[Row], names: list[str]) -> dict[str, Any]:
    """Take medians over cases, by shift."""
    found: dict[str, Any] = {}
    for shift in SHIFTS:
        own = [row for row in rows if row["shift"] == shift]
        points = [point for row in own for point in row["points"]]
        if not own:
            continue
        found[shift] = {
            "cases": len(own),
            "points": len(points),
            "locality": {
                name: {
                    "profile": _nan_medians([point[name]["profile"] for point in points]),
                    **{key: float(np.median([point[name][key] for point in points]))
                       for key in ("half", "error", "outside")},
                }
                for name in ["exact", *names]
            },
            "transfer": {
                "exact": {
                    "shores": _nan_medians([row["changes"]["exact"]["shores"] for row in own]),
                    "size": float(np.median([row["changes"]["exact"]["size"] / row["reference"] for row in own])),
                }
            }
            | {
                name: {
                    "shores": _nan_medians([row["changes"][name]["shores"] for row in own]),
                    "size": float(np.median([row["changes"][name]["size"] / row["reference"] for row in own])),
                    **{key: float(np.median([row["changes"][name][key] for row in own]))
                       for key in ("error", "before", "after")},
                }
                for name in names
            },
            "scales": {
                name: {
                    "error": float(np.median([row["scales"][name]["error"] for row in own])),
                    "bands": np.median(
                        [[each["bands"] for each in row["scales"][name]["levels"]] for row in own], axis=0
                    ).tolist(),
                    "without": np.median(
                        [[each["error"] for each in row["scales"][name]["levels"]] for row in own], axis=0
                    ).tolist(),
                }
                for name in names
                if name in own[0]["scales"]
            },
        }  # fmt: skip
    return found


def _nan_medians(values: list[list[float]]) -> list[float | None]:
    """Take the median of every column over the rows that have a number there; None if none has."""
    columns = [[each for each in column if not np.isnan(each)] for column in zip(*values, strict=True)]
    return [float(np.median(column)) if column else None for column in columns]


def draw_locality(found: dict[str, Any], names: list[str]) -> Figure:
    """Draw sensitivities against distance, one panel for each kind of case."""
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    grid = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
    middles = (RINGS[1:] + RINGS[:-1]) / 2
    for axes, (shift, of) in zip(grid, found.items(), strict=True):
        for name, colour in zip(["exact", *names], [QUIET, *COLOURS], strict=False):
            values = [np.nan if each is None else each for each in of["locality"][name]["profile"]]
            axes.plot(
                middles, values, color=colour, marker="o", markersize=4, label=name,
                linestyle="--" if name == "exact" else "-", linewidth=2.4 if name == "exact" else 1.5,
                alpha=0.8,
            )  # fmt: skip
        axes.set_title(f"{SHIFTS[shift].strip('`')}: {of['points']} pixels x of {of['cases']} cases", fontsize=10)
        axes.set_xlabel("distance |x − y|, shares of the grid", fontsize=9)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    label_decades(grid[0])
    for axes in grid[1:]:
        axes.grid(color=QUIET, alpha=0.25, linewidth=0.5)
    grid[0].set_ylabel("|∂u(x)/∂f(y)|, one pixel y: median", fontsize=9)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=9, frameon=False)
    return figure


def draw_transfer(found: dict[str, Any], names: list[str]) -> Figure:
    """Draw how much the field changes against the distance from what was cut off."""
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    grid = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
    ticks = [f"{low} to {high - 1}" for low, high in pairwise(SHORES)] + [f"over {SHORES[-1] - 1}"]
    for axes, (shift, of) in zip(grid, found.items(), strict=True):
        for name, colour in zip(["exact", *names], [QUIET, *COLOURS], strict=False):
            values = [np.nan if each is None else each for each in of["transfer"][name]["shores"]]
            axes.plot(
                range(len(ticks)), values, color=colour, marker="o", markersize=4, label=name, alpha=0.8,
                linestyle="--" if name == "exact" else "-", linewidth=2.4 if name == "exact" else 1.5,
            )  # fmt: skip
        axes.set_xticks(range(len(ticks)), ticks)
        axes.set_title(f"{SHIFTS[shift].strip('`')}: {of['cases']} cases, {CUT:.0%} cut off", fontsize=10)
        axes.set_xlabel("steps from the cut, pixels", fontsize=9)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    label_decades(grid[0])
    for axes in grid[1:]:
        axes.grid(color=QUIET, alpha=0.25, linewidth=0.5)
    grid[0].set_ylabel("change of the field (rms), shares of max |U|: median", fontsize=9)
    handles, labels = grid[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), fontsize=9, frameon=False)
    return figure


def name_levels(count: int, side: int) -> list[str]:
    """Name the scales by the side of their grids."""
    return [*(f"skip, {side >> level} pixels" for level in range(count - 1)), f"coarsest, {side >> (count - 1)} pixels"]


def draw_scales(found: dict[str, Any], side: int) -> Figure:
    """Draw for each scale and each band of wavelengths the share of the prediction that changes without it."""
    shift, first = next(iter(found.items()))
    scales = first["scales"]
    figure = Figure(figsize=(5.6 * len(scales), 3.6), layout="constrained")
    image, largest = None, max(float(np.max(of["bands"])) for of in scales.values())
    for axes, (name, of) in zip(figure.subplots(1, len(scales), squeeze=False)[0], scales.items(), strict=True):
        bands = np.array(of["bands"])
        image = axes.imshow(bands, cmap="viridis", vmin=0, vmax=largest, aspect="auto")
        for row, column in np.ndindex(*bands.shape):
            dark = bands[row, column] < 0.6 * largest
            text = f"{bands[row, column]:.2f}"
            axes.text(column, row, text, ha="center", va="center", color="w" if dark else "k", size=8)
        axes.set_xticks(range(len(BANDS)), BANDS)
        axes.set_yticks(range(len(bands)), name_levels(len(bands), side))
        axes.tick_params(labelsize=8, length=0)
        axes.set_xlabel("wavelength, pixels", fontsize=9)
        axes.set_title(f"{name}, {SHIFTS[shift].strip('`')}", fontsize=10)
    if image is not None:
        bar = figure.colorbar(image, ax=figure.axes, fraction=0.03, pad=0.01)
        bar.set_label("change / prediction, in the band", fontsize=8)
        bar.ax.tick_params(labelsize=8)
    return figure


def draw_maps(models: dict[str, "disol.Surrogate"], resolution: int | None) -> Figure:
    """Draw ∂u(x)/∂f(y) as a map for one case of each kind, exact and by all models, in one scale."""
    figure = Figure(figsize=(2.7 * (1 + len(models)), 2.6 * len(SHIFTS)), layout="constrained")
    grid = figure.subplots(len(SHIFTS), 1 + len(models), squeeze=False)
    for line, shift in zip(grid, SHIFTS, strict=True):
        case = draw_case(0, shift, resolution)
        pixel = choose_pixels(case, 0)[0]
        maps = {"exact": ExactSensitivity(case).pattern(pixel)}
        maps |= {name: network_sensitivity(model.network, case.inputs, SOURCE, pixel) for name, model in models.items()}
        scale = signed_scale(np.percentile(np.abs(maps["exact"][case.domain]), [99]))
        for axes, (name, slope) in zip(line, maps.items(), strict=True):
            panel = field_panel(f"{name}\n{SHIFTS[shift].strip('`')}", slope, case.domain, scale)
            panel.draw(axes)
            axes.plot(pixel[1], pixel[0], marker="+", color="#202428", markersize=9)
            axes.set(xticks=[], yticks=[])
            axes.set_title(panel.title, fontsize=9)
    return figure


def conclude(found: dict[str, Any], names: list[str]) -> str:
    """Put the numbers of each network side by side."""
    lines = []
    for (shift, of), name in product(found.items(), names):
        own, exact = of["locality"][name], of["locality"]["exact"]
        moved = of["transfer"][name]
        rings = (
            f"{found / reference:.2f}" if found and reference else "unknown"
            for found, reference in ((own["profile"][ring], exact["profile"][ring]) for ring in (0, -1))
        )
        lines.append(
            [f"`{name}`", SHIFTS[shift], *rings, f"{own['half']:.2f} ({exact['half']:.2f})", f"{own['error']:.0%}"]
            + [f"{own['outside']:.0%}", f"{moved['size']:.0%} ({of['transfer']['exact']['size']:.0%})"]
            + [f"{moved['error']:.0%}"]
        )
    heading = ["", "cases", "next to x", "farthest ring", "radius of half (exact)", "map off by"]
    return table([*heading, "outside the domain", "change (exact)", "change off by"], lines)


def describe(models: dict[str, "disol.Surrogate"]) -> str:
    """Say which networks are shown."""
    return "\n".join(
        f"- `{name}`: a `{model.checkpoint.card.model}` with {count_parameters(model.network):,} parameters"
        + (f", trained on {TRAINED_ON[name]}" if name in TRAINED_ON else "")
        for name, model in models.items()
    )


def main() -> None:
    assert __doc__ is not None
    parser = read_options(__doc__, cases=60, models=MODELS)
    parser.add_argument("--baseline", nargs="+", default=[], help="folders of runs to show beside the models")
    options = parser.parse_args()
    models = load_models([*options.models, *options.baseline], options.device)
    names = list(models)
    wanted = [
        {"index": index, "shift": shift, "models": names, "resolution": options.resolution}
        for index, shift in product(range(options.cases), SHIFTS)
    ]
    rows = measure_rows(wanted, lambda row: measure(row, models), options.out, options.minutes)
    found = summarise(rows, names)
    side = options.resolution or disol.PROBLEMS["poisson"].resolution
    locality = [
        [name if name == "exact" else f"`{name}`", SHIFTS[shift], str(of["points"]), f"{own['half']:.2f}"]
        + ([f"{own['error']:.0%}", f"{own['outside']:.1%}"] if name != "exact" else ["", "0"])
        for shift, of in found.items()
        for name, own in of["locality"].items()
    ]
    transfer = [
        [f"`{name}`", SHIFTS[shift], f"{of['transfer']['exact']['size']:.0%}", f"{own['size']:.0%}"]
        + [f"{own['error']:.0%}", scientific(own["before"]), scientific(own["after"])]
        for shift, of in found.items()
        for name, own in of["transfer"].items()
        if name != "exact"
    ]
    scales = [
        [f"`{name}`", SHIFTS[shift], scientific(own["error"]), ", ".join(f"{each:.2g}" for each in own["without"])]
        for shift, of in found.items()
        for name, own in of["scales"].items()
    ]
    cases = ", ".join(f"{of['cases']} cases {SHIFTS[shift]}" for shift, of in found.items())
    publish(
        [
            "# Why it generalises",
            "This page is written by `python studies/mechanism.py`. The paper explains generalisation by local rules "
            "that are assembled across scales. Here this is measured for these networks:",
            describe(models),
            f"All numbers are medians over Poisson cases on {side} x {side} pixels: {cases} (conventions "
            f"`{CONVENTIONS}`, seed {SEED}).",
            "## How local it is",
            "How does the pattern at a pixel x respond to the source at a pixel y? The sensitivity ∂u(x)/∂f(y) of each "
            "network is compared with the exact one, which is that of U / max |U| and comes from Green's function of "
            "the same discrete system. The receptive field of a layer does not answer the question, because means over "
            "the grid make every output depend on every input.",
            "locality",
            "*Radius of half* is the radius about x that holds half of the sensitivity in the domain, as a share of "
            "the grid. *Off by* is the `rel_l2` of the map over the domain. *Outside the domain* is the share of all "
            "sensitivity that goes to pixels outside; there is never a source there, so training says nothing about "
            "them.",
            table(["", "cases", "pixels x", "radius of half", "off by", "outside the domain"], locality),
            "The same as a map, for a pixel x (+) of the first case of each kind:",
            "maps",
            "## What it carries from domain to domain",
            f"Cut off the {CUT:.0%} of a domain that is farthest from its Dirichlet pixels, and keep all data on the "
            "rest, the part that both domains share. How does the field change there? Patterns are multiplied by exact "
            "amplitudes, so only the shape of the field comes from the network.",
            "transfer",
            "The changes are relative to the field before the cut. *Off by* is the `rel_l2` of the predicted change; "
            "the last two columns are the errors of the predictions before and after the cut. All are over the shared "
            "part:",
            table(
                ["", "cases", "exact change", "predicted change", "off by", "rel_l2 before", "rel_l2 after"], transfer
            ),
            "## What each scale carries",
            "Replace the features of one scale by their mean over the grid, so that they carry no information about "
            "position. The picture shows how much the prediction then changes in each band of wavelengths, as a share "
            "of the prediction in that band; the table shows its error. Only networks with an encoder-decoder have "
            "such scales.",
            *(["scales"] if scales else []),
            table(["", "cases", "rel_l2", "rel_l2 without a scale, from the finest to the coarsest"], scales),
            "## In numbers",
            "Everything side by side. *Next to x* and *farthest ring* are sensitivities in the first and the last ring "
            "about x, divided by the exact ones; the exact values of other columns are in brackets. The exact "
            "sensitivity outside the domain is zero. *Change* is that of the field where the far quarter of the domain "
            "is cut off.",
            conclude(found, names),
        ],
        {
            "locality": draw_locality(found, names),
            "maps": draw_maps(models, options.resolution),
            "transfer": draw_transfer(found, names),
            **({"scales": draw_scales(found, side)} if scales else {}),
        },
        found,
        options.write,
        "mechanism" if options.write is None else options.write.stem,
    )


if __name__ == "__main__":
    main()
