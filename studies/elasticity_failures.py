r"""Elasticity failures: the worst 1 % of cases, what they share, and how they look.

    python studies/elasticity_failures.py --cases 300 --out studies-work/elasticity \
        --write docs/studies/elasticity_failures.md

What `--out` holds already is not measured again.
"""

from itertools import product
from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.figure import Figure
from scipy.ndimage import distance_transform_edt, label
from scipy.stats import spearmanr

import disol
from disol.viz.cases import is_marker, marker_panel
from disol.viz.panels import Panel, deformed_panel, draw_panels, error_panel, motion_factor, values_scale
from study import (
    CONVENTIONS,
    SEED,
    Row,
    load_models,
    measure_rows,
    pattern_error,
    publish,
    read_options,
    scientific,
    table,
)

MODELS = ("elasticity", "elasticity-paper")
SHIFTS = {"": "in distribution", "all": "`all`"}
SHOWN = 3  # worst cases of each kind in the gallery
WORST = 0.01
FEATURES = {
    "slenderness": "√area, divided by the width of the widest inscribed disc",
    "neck": "the narrowest width on the widest path from a load to a support",
    "support": "the length of the shorter of the two supports",
    "load": "the length of the loaded boundary",
    "distance": "the distance between the centres of the supports and of the loads",
    "lever": "that distance, divided by the length of the shorter support",
    "rigid": "the share of the displacement that a rigid motion explains",
    "amplitude": "the largest displacement",
}

Mask = Bool[np.ndarray, "height width"]


def neck_width(domain: Mask, support: Mask, load: Mask) -> float:
    """Return the width of the narrowest place on the widest way from a load to a support, in pixels.

    A disc of radius r can go there if its middle stays r away from the outside; the largest r is sought for which one
    that touches a load can go to where it touches a support.
    """
    depth = distance_transform_edt(np.pad(domain, 1))[1:-1, 1:-1]
    from_support, from_load = (distance_transform_edt(~mask) for mask in (support, load))
    for radius in np.unique(depth[domain])[::-1]:
        parts, _ = label(depth >= radius)
        ends = [set(parts[(parts > 0) & (near <= radius + 1)].tolist()) for near in (from_support, from_load)]
        if ends[0] & ends[1]:
            return float(2 * radius - 1)
    return 1.0


def rigid_share(field: Float[np.ndarray, "2 height width"], domain: Mask) -> float:
    """Return how much of ‖u‖² the best rigid motion, u ≈ t + ω (−y, x), explains."""
    y, x = np.nonzero(domain) / np.array([[domain.shape[0]]])
    u = np.concatenate([field[0][domain], field[1][domain]])
    ones, zeros = np.ones_like(x), np.zeros_like(x)
    motions = np.stack(
        [np.concatenate([ones, zeros]), np.concatenate([zeros, ones]), np.concatenate([-(y - y.mean()), x - x.mean()])]
    )  # orthogonal to each other
    coordinates = motions @ u / np.linalg.norm(motions, axis=1)
    return float((coordinates**2).sum() / (u @ u))


def describe(case: "disol.Case", solution: "disol.Solution") -> dict[str, float]:
    """Measure what the cases with large errors may share."""
    side = case.grid.pixels[0]
    fixed = [case.terms[name] != 0 for name in ("fix_x", "fix_y")]
    loads = [case.terms[name] != 0 for name in ("force_x", "force_y")]
    support, load = fixed[0] | fixed[1], loads[0] | loads[1]
    middles = [np.argwhere(mask).mean(0) / side for mask in (support, load)]
    depth = distance_transform_edt(np.pad(case.domain, 1))
    shortest = float(min(mask.sum() for mask in fixed)) / side
    distance = float(np.linalg.norm(middles[0] - middles[1]))
    return {
        "slenderness": float(np.sqrt(case.domain.sum()) / (2 * depth.max() - 1)),
        "neck": neck_width(case.domain, support, load) / side,
        "support": shortest,
        "load": float(sum(mask.sum() for mask in loads)) / side,
        "distance": distance,
        "lever": distance / shortest,
        "rigid": rigid_share(solution.field, case.domain),
        "amplitude": float(solution.amplitude),
    }


def draw_case(index: int, shift: str, resolution: int | None) -> "disol.Case":
    """Draw one of the cases."""
    return disol.draw(
        "elasticity", seed=SEED, index=index, shift=shift or None, resolution=resolution, conventions=CONVENTIONS
    )


def measure(row: Row, models: dict[str, "disol.Surrogate"]) -> Row:
    """Return the errors of every model on one case, and its features."""
    case = draw_case(row["index"], row["shift"], row["resolution"])
    solution = disol.solve_exact(case)
    errors = {
        name: pattern_error(models[name].predict_pattern(case.inputs[None])[0], solution.pattern, case.domain)
        for name in row["models"]
    }
    return {"errors": errors, "features": describe(case, solution)}


def summarise(rows: list[Row], model: str) -> dict[str, Any]:
    """Compare the worst cases of a model with the rest, and rank errors against every feature."""
    errors = np.array([row["errors"][model] for row in rows])
    order = np.argsort(-errors)
    worst, tenth = order[: max(1, round(WORST * len(rows)))], order[: max(1, round(0.1 * len(rows)))]
    rest = order[len(tenth) :]
    features = {}
    for name in FEATURES:
        values = np.array([row["features"][name] for row in rows])
        correlation = spearmanr(values, errors) if len(rows) > 2 else None
        features[name] = {
            "spearman": float(correlation.statistic) if correlation else float("nan"),
            "p": float(correlation.pvalue) if correlation else float("nan"),
            "worst": float(np.median(values[worst])),
            "tenth": float(np.median(values[tenth])),
            "rest": float(np.median(values[rest])) if len(rest) else float("nan"),
        }
    return {
        "cases": len(rows),
        "mean": float(errors.mean()),
        "median": float(np.median(errors)),
        "p95": float(np.percentile(errors, 95)),
        "worst": {str(rows[place]["index"]): float(errors[place]) for place in order[: max(SHOWN, len(worst))]},
        "worst_cases": len(worst),
        "features": features,
    }


def gallery_row(surrogate: "disol.Surrogate", index: int, shift: str, resolution: int | None) -> list[Panel]:
    """Return the panels of one case: what is given, exact and predicted bodies, the error."""
    case = draw_case(index, shift, resolution)
    solution = disol.solve_exact(case)
    exact, predicted = solution.pattern, surrogate.predict_pattern(case.inputs[None])[0].astype(float)
    scale = values_scale(np.hypot(*exact)[case.domain])
    factor = motion_factor(exact)
    given = {term.name: case.terms[term.name] for term in case.problem.terms if is_marker(term)}
    missed = pattern_error(predicted, exact, case.domain)
    return [
        marker_panel(f"{SHIFTS[shift].strip('`')}, case {index}", case.problem.terms, given, case.domain),
        deformed_panel("exact", exact, case.domain, scale, factor),
        deformed_panel(f"predicted, rel_l2 {missed:.0%}", predicted, case.domain, scale, factor),
        error_panel(np.hypot(*(predicted - exact)), case.domain),
    ]


def conclude(found: dict[str, dict[str, Any]]) -> list[str]:
    """Name the features that go with large errors, by the strength of their rank correlation."""
    level = f"p < 0.01 after Bonferroni correction over the {len(FEATURES)} features"
    lines = []
    for (name, shift), of in ((key.split("/"), of) for key, of in found.items()):
        told = [
            (each["spearman"], feature) for feature, each in of["features"].items() if each["p"] < 0.01 / len(FEATURES)
        ]
        ranked = ", ".join(
            f"{feature} ({value:+.2f})" for value, feature in sorted(told, key=lambda pair: -abs(pair[0]))
        )
        lines.append(f"- `{name}`, {SHIFTS[shift]}: {ranked or 'none'}.")
    named = []
    for feature in ("slenderness", "neck", "support", "load"):  # slender ligaments, short segments
        seen = [of["features"][feature] for of in found.values()]
        significant = sum(each["p"] < 0.01 / len(FEATURES) for each in seen)
        span = f"{min(each['spearman'] for each in seen):+.2f} to {max(each['spearman'] for each in seen):+.2f}"
        named.append([feature, span, f"{significant} of {len(seen)}"])
    return [
        "The paper attributes its failures to slender ligaments and short segments. The features that measure these "
        f"two correlate with the error as follows, over the columns above (significant: {level}):",
        table(["feature", "rank correlation", "significant in"], named),
        "The features with a significant rank correlation, strongest first:",
        "\n".join(lines),
    ]


def main() -> None:
    assert __doc__ is not None
    options = read_options(__doc__, cases=300, models=MODELS).parse_args()
    models = load_models(options.models, options.device)
    wanted = [
        {"index": index, "shift": shift, "models": list(models), "resolution": options.resolution}
        for index, shift in product(range(options.cases), SHIFTS)
    ]
    rows = measure_rows(wanted, lambda row: measure(row, models), options.out, options.minutes)
    found = {
        f"{name}/{shift}": summarise([row for row in rows if row["shift"] == shift], name)
        for name, shift in product(models, SHIFTS)
    }
    errors = [
        [f"`{key.split('/')[0]}`", SHIFTS[key.split("/")[1]], str(of["cases"])]
        + [scientific(of[name]) for name in ("mean", "median", "p95")]
        + [str(of["worst_cases"]), ", ".join(scientific(each) for each in list(of["worst"].values())[:SHOWN])]
        for key, of in found.items()
    ]
    heading = ["feature", *(f"`{key.split('/')[0]}`, {SHIFTS[key.split('/')[1]]}" for key in found)]
    features = [
        [f"{name}"]
        + [
            f"{of['features'][name]['spearman']:+.2f}; {of['features'][name]['worst']:.2g}, "
            f"{of['features'][name]['tenth']:.2g}, {of['features'][name]['rest']:.2g}"
            for of in found.values()
        ]
        for name in FEATURES
    ]
    galleries: dict[str, Figure] = {
        f"worst-{name}": draw_panels(
            [
                gallery_row(models[name], int(index), shift, options.resolution)
                for shift in SHIFTS
                for index in list(found[f"{name}/{shift}"]["worst"])[:SHOWN]
            ],
            f"{name}: the cases with the largest errors",
            side=2.4,
        )
        for name in models
    }
    publish(
        [
            "# Failures of elasticity",
            "This page is written by `python studies/elasticity_failures.py`. It looks for what the cases with the "
            "largest errors have in common.",
            "Errors are the `rel_l2` of displacement patterns over the domain, against the exact solution on the same "
            f"pixels (conventions `{CONVENTIONS}`, seed {SEED}).",
            table(["model", "cases of", "cases", "mean", "median", "p95", "in worst 1 %", "largest errors"], errors),
            "Each case is described by these features. Neck, support, load and distance are shares of the side of the "
            "grid:",
            "\n".join(f"- *{name}*: {meaning}." for name, meaning in FEATURES.items()),
            "For each feature, the table gives its rank correlation (Spearman) with the error, and then its medians "
            "over the worst 1 % of the cases, over the worst 10 %, and over the other 90 %:",
            table(heading, features),
            *conclude(found),
            "The cases with the largest errors, for each model and each kind of case:",
            *galleries,
        ],
        galleries,
        found,
        options.write,
        "elasticity_failures",
    )


if __name__ == "__main__":
    main()
