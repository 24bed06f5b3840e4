"""Write docs/benchmarks/robustness.md from what the campaigns have kept.

python fuzz/page.py --write docs/benchmarks/robustness.md
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.append(str(HERE.parent / "benchmarks"))  # scripts, which import each other by name

from campaign import RESULTS, Campaign
from report import processor, publish, table
from stating import CONTINUED, EXACT, SAME

VERDICTS = ("ok", "refused", "traceback", "hang", "memory", "crash", "wrong answer", "outside")
GENERATORS = {
    "solve": "cases of every problem, element and convention against an independent assembly in 60 digits",
    "relations": "drawn cases: linearity, symmetries, batches, residual and energy",
    "calls": "`solve_exact`, `system` and `Case` with arguments of any type, shape and size",
    "draws": "`draw` with any arguments; the same seed twice",
    "surrogates": "`verify` against the same assembly, `predict_pattern` of anything",
    "predictions": "`predict` of cases like those of training against exact solutions, and of anything",
    "boundaries": "masks, drawn cases, polygons and pictures on their true boundary",
    "statements": "problems by parts of the boundary, with coefficients and units, right and wrong: linear solutions, "
    "linearity, other units, balances, derivatives against differences",
    "parts": "texts that name parts of a boundary and give values on them",
    "answers": "points, parts, derivatives, pictures and files that are asked of solutions",
    "rankings": "`rank` of cases some of which fail, by measures of any kind",
    "generations": "`generate` and `evaluate` with right and odd arguments, and what is stored",
    "pictures": "PNG, GIF, JPEG, TIFF, BMP, WebP: painted, damaged, bombs, no files",
    "outlines": "JSON and GeoJSON: right, degenerate, damaged, deep, huge",
    "ranges": "boundary ranges, seconds and names of geometries",
    "formulas": "of the grammar, whose values Python knows, and hostile ones",
    "stores": "HDF5: damaged bytes, attributes, datasets, links, bombs",
    "checkpoints": "configuration, weights, metrics and state damaged or forged, links, FIFOs, earlier evaluations",
    "configs": "TOML files and overrides",
    "commands": "`disol` with any options",
}


STATED = ("statements", "parts", "answers", "rankings")


def told_stated(campaign: Campaign) -> list[str]:
    """Tell what became of what users state, ask and rank, in a campaign of these generators alone."""
    command = f"python fuzz/campaign.py --generators {' '.join(STATED)} --out {RESULTS / 'stated.json'}"
    told = (
        f"{campaign.inputs:,} inputs in {campaign.seconds / 60:.0f} minutes (`{command}`), under the same limits. "
        "Here these are wrong answers too:\n\n"
        f"- a linear solution that is not reproduced, to {EXACT:g} on a mask and {CONTINUED:g} on curves, where "
        "slivers are merged\n"
        "- a solution that does not depend linearly on its data, or changes with the unit of length, by more than "
        f"{SAME:g}\n"
        "- totals that do not add up to 0, derivatives that differ from central differences, incomplete files, and "
        "rankings out of order"
    )
    return ["## What can be stated", told, *told_counts(campaign), *told_findings(campaign)]


def told_campaign(campaign: Campaign, again: Sequence[Campaign] = ()) -> list[str]:
    """Tell how many inputs of each kind there were, and what became of them; and again, of what has been mended."""
    told = ["## Fuzzing", told_limits(campaign), *told_counts(campaign), *told_findings(campaign)]
    if again:
        joined = Campaign(
            verdicts={name: counts for each in again for name, counts in each.verdicts.items()},
            **{name: max(getattr(each, name) for each in again) for name in ("longest", "slowest", "largest")},
        )
        told.append(
            "All of these have been fixed. The generators concerned were then run again, with as many inputs as before:"
        )
        told += told_counts(joined)
    return told


def told_findings(campaign: Campaign) -> list[str]:
    """Tell what was found, if anything was."""
    rows = [
        [str(found["count"]), alike.replace("|", "\\|"), "`--only {generator} {seed}`".format(**found["examples"][0])]
        for alike, found in sorted(campaign.findings.items(), key=lambda each: -each[1]["count"])
    ]
    if not rows:
        return []
    return [
        "What was found, where in the package (*elsewhere*: in an answer, or in the campaign itself), and the first "
        "input that shows it:",
        table(["", "finding", "reproduce by"], rows),
    ]


def told_counts(campaign: Campaign) -> list[str]:
    """Tell the verdicts of each generator, and the extremes."""
    kept = [name for name in GENERATORS if name in campaign.verdicts]
    rows = []
    for name in kept:
        counts = campaign.verdicts[name]
        rows.append([f"`{name}`", GENERATORS[name], *(f"{counts.get(verdict, 0):,}" for verdict in VERDICTS)])
    total: Counter[str] = Counter()
    for counts in campaign.verdicts.values():
        total.update(counts)
    rows.append(["", "all", *(f"{total[verdict]:,}" for verdict in VERDICTS)])
    return [
        table(["generator", "inputs", *VERDICTS], rows),
        f"The slowest input took {campaign.slowest[0]:.1f} s of wall-clock time (`{campaign.slowest[1]}`), the largest "
        f"used {campaign.largest[0] / 1e6:.0f} MB (`{campaign.largest[1]}`), and the longest message had "
        f"{campaign.longest[0]:,} characters.",
    ]


def told_limits(campaign: Campaign) -> str:
    """Tell what was run, and what the verdicts mean."""
    limits = campaign.limits
    return (
        f"{campaign.inputs:,} inputs in {campaign.seconds / 60:.0f} minutes (`python fuzz/campaign.py`, or `make fuzz "
        f"MINUTES=60`), each limited to {limits['seconds']:g} s, not counting time in which other processes ran, and "
        f"{limits['bytes'] / 1e9:g} GB. Verdicts:\n\n"
        "- *refused*: one line of a `DisolError`, or exit code 2\n"
        "- *traceback*: any other exception\n"
        "- *wrong answer*: an error larger than the package says, a broken relation, damage that went unnoticed, or a "
        "valid case that was refused\n"
        "- *outside*: files changed outside the named folder, or code of an input was run"
    )


def told_kills(results: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Tell how many runs were hit by which signal, and what they had become when they were resumed."""
    rows = []
    for name, hits in results.items():
        for kind in sorted({hit["signal"] for hit in hits}):
            own = [hit for hit in hits if hit["signal"] == kind and not hit["ended_before"]]
            rows.append(
                [
                    f"`{name}`",
                    kind,
                    str(len(own)),
                    str(sum(hit["had_files"] for hit in own)),
                    str(sum(not hit["failures"] for hit in own)),
                    str(sum(bool(hit["failures"]) for hit in own)),
                ]
            )
    failures = Counter(
        failure.splitlines()[-1][:120] for hits in results.values() for hit in hits for failure in hit["failures"]
    )
    told = [
        "## Kills",
        "Runs were sent a signal at a random moment and then resumed (`python fuzz/kills.py`). Files of `generate` are "
        "compared byte for byte with those of an undisturbed run, runs of `train` by weights and history. No other "
        "file, temporary file or process may be left.",
        table(["run", "signal", "sent", "of these while writing", "equal after resuming", "different"], rows),
    ]
    if failures:
        told.append(table(["", "failure"], [[str(count), failure] for failure, count in failures.most_common()]))
    return told


def told_soak(result: dict[str, Any]) -> list[str]:
    """Tell how memory went, and what was left."""
    done = ", ".join(f"{count} x {name}" for name, count in result["done"].items())
    medians = " / ".join(f"{size / 1e6:.0f}" for size in result["resident"])
    leaked = ", ".join(f"{count} {name}" for name, count in result["leaked"].items())
    return [
        "## Soak",
        f"{result['minutes']:.3g} minutes of mixed work in one process (`python fuzz/soak.py`): {done}. After a "
        f"warm-up of a quarter of the time, the median memory in six equal parts was {medians} MB, at most "
        f"{100 * result['growth']:.1f} % above the first. Left over at the end: {leaked}. "
        f"{'Passed' if result['passed'] else 'Failed'}: growth of 5 % is allowed, and nothing may be left over.",
    ]


def main(arguments: list[str] | None = None) -> None:
    """Write the page of all results that there are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="folder with campaign, again*, stated, kills, soak"
    )
    parser.add_argument("--write", type=Path, help="the page")
    options = parser.parse_args(arguments)
    files = {name: options.results / f"{name}.json" for name in ("campaign", "stated", "kills", "soak")}
    paragraphs = [
        "# Robustness",
        "Written by `python fuzz/page.py` from the stored results of the scripts named below. What the package "
        "promises about files from strangers is in [SECURITY.md](../../SECURITY.md).",
    ]
    if files["campaign"].exists():
        again = [Campaign.read(path) for path in sorted(options.results.glob("again*.json"))]
        paragraphs += told_campaign(Campaign.read(files["campaign"]), again)
    if files["stated"].exists():
        paragraphs += told_stated(Campaign.read(files["stated"]))
    if files["kills"].exists():
        paragraphs += told_kills(json.loads(files["kills"].read_text()))
    if files["soak"].exists():
        paragraphs += told_soak(json.loads(files["soak"].read_text()))
    publish([*paragraphs, f"Machine: {processor()}."], options.write)


if __name__ == "__main__":
    main()
