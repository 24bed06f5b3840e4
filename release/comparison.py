"""Our errors beside others: the paper's figures, the authors' weights on the same cases, and the released samples."""

from typing import Any

from disol.models import Checkpoint
from disol.models.known_errors import frames_of, headline
from paper import find_range, find_scale, find_target, verdict
from wording import kind_of, number, table


def comparison(model: Checkpoint) -> str:
    """Set our errors beside the paper's."""
    tests = model.metrics["tests"]
    if any("frames" in test for test in tests.values()):
        return transient_comparison(model)
    scale = find_scale(model.card)
    scaled = "" if scale == 1 else f", x {scale:g}"
    heading = ["test cases", "cases", "coverage", "`rel_l2`", "median", "p95", "`mae`", "`grid_mae`"]
    heading += [f"paper's DiSOL, `grid_mae`{scaled}", f"paper's best rival{scaled}", "target"]
    rows = []
    for test in tests.values():
        metrics, target = test["metrics"], find_target(model.card, test["shift"])
        errors = [*(metrics["rel_l2"][each] for each in ("mean", "median", "p95"))]
        errors += [metrics["mae"]["mean"], metrics["grid_mae"]["mean"]]
        paper = [number(target.disol), f"{number(target.rival)} ({target.rival_name})"] if target else ["", ""]
        known = [kind_of(test), f"{test['cases']:,}", f"{test['coverage']:.2f}"]
        rows.append([*known, *map(number, errors), *paper, frame_verdict(model, test, None, metrics)])
        for shape, found in test.get("by_shape", {}).items():
            metrics = found["metrics"]
            errors = [*(metrics["rel_l2"][each] for each in ("mean", "median", "p95"))]
            errors += [metrics["mae"]["mean"], metrics["grid_mae"]["mean"]]
            name = shape.removeprefix("shape:").removesuffix("+hole")
            known = [f"- {name}", f"{found['cases']:,}", f"{found['coverage']:.2f}"]
            rows.append([*known, *map(number, errors), *["" for _ in paper], frame_verdict(model, test, None, metrics)])
    return table(heading, rows)


def shape_sentences(model: Checkpoint) -> list[str]:
    """Say which shapes make a target missed that the others together meet."""
    told = []
    for test in model.metrics["tests"].values():
        target, shapes = find_target(model.card, test["shift"]), test.get("by_shape", {})
        if target is None or not shapes or test["metrics"]["grid_mae"]["mean"] <= target.disol:
            continue
        cases = {name: (found["cases"], found["metrics"]["grid_mae"]["mean"]) for name, found in shapes.items()}
        worst = max(cases, key=lambda name: cases[name][1])
        others = [each for name, each in cases.items() if name != worst]
        mean = sum(count * error for count, error in others) / sum(count for count, _ in others)
        if mean <= target.disol:
            name = worst.removeprefix("shape:").removesuffix("+hole")
            told.append(
                f"Only one of the {kind_of(test)} causes the target to be missed, {name}: the others together have a "
                f"`grid_mae` of {number(mean)}."
            )
    return told


def transient_comparison(model: Checkpoint) -> str:
    """Set our errors beside the paper's, time by time."""
    heading = ["test cases", "cases", "coverage", "time", "`rel_l2`", "median", "p95", "`mae`", "`grid_mae`"]
    rows = []
    for test in model.metrics["tests"].values():
        for time, metrics in frames_of(test):
            assert time is not None
            span = find_range(model.card, test["shift"], time)
            errors = [*(metrics["rel_l2"][each] for each in ("mean", "median", "p95"))]
            errors += [metrics["mae"]["mean"], metrics["grid_mae"]["mean"]]
            known = [kind_of(test), f"{test['cases']:,}", f"{test['coverage']:.2f}"]
            paper = "" if span is None else f"{number(span[0])} to {number(span[1])}"
            result = frame_verdict(model, test, time, metrics)
            rows.append([*known, f"{time:g} s", *map(number, errors), paper, result])
    return table([*heading, "paper's DiSOL, `mae`", "target"], rows)


def verdict_sentences(model: Checkpoint) -> list[str]:
    """Say plainly which targets are met and which are missed."""
    found: dict[str, list[str]] = {"met": [], "missed": []}
    for test in model.metrics["tests"].values():
        for result, where in found.items():
            times = [time for time, metrics in frames_of(test) if frame_verdict(model, test, time, metrics) == result]
            seconds = ", ".join(f"{time:g}" for time in times if time is not None)
            if times:
                where.append(kind_of(test) + (f" at {seconds} s" if seconds else ""))
    told = [f"**Target {result}**: {'; '.join(where)}." for result, where in found.items() if where]
    return [" ".join(told)] if told else []


def summed_verdict(model: Checkpoint, test: dict[str, Any]) -> str:
    """Say whether the target of a test is met; of a transient problem at how many times."""
    verdicts = [frame_verdict(model, test, time, metrics) for time, metrics in frames_of(test)]
    if len(verdicts) == 1:
        return verdicts[0]
    given = [each for each in verdicts if each != "none"]
    return f"met at {given.count('met')} of {len(given)} times"


def frame_verdict(model: Checkpoint, test: dict[str, Any], time: float | None, metrics: dict[str, Any]) -> str:
    """Compare with the paper: `grid_mae` of a steady problem, masked `mae` at a time of a transient one."""
    if time is None:
        target = find_target(model.card, test["shift"])
        return verdict(metrics["grid_mae"]["mean"], None if target is None else target.disol)
    span = find_range(model.card, test["shift"], time)
    return verdict(metrics["mae"]["mean"], None if span is None else span[1])


def rival_paragraphs(name: str, model: Checkpoint) -> list[str]:
    """Compare with other weights that were run on the same cases, and these with the paper's figures."""
    paragraphs = []
    for rival, tests in model.metrics["rivals"].items():
        heading = ["test cases", f"`rel_l2` of `{name}`", f"`rel_l2` of {rival}", f"{rival} / `{name}`"]
        heading += [f"`grid_mae` of `{name}`", f"`grid_mae` of {rival}", f"target, by {rival}"]
        rows = []
        for test, theirs in tests.items():
            ours = model.metrics["tests"][test]
            errors = [headline(ours), headline(theirs)]
            grid_errors = [headline(ours, "grid_mae"), headline(theirs, "grid_mae")]
            times = f"{errors[1] / errors[0]:.2f}" if errors[0] and errors[1] else ""
            columns = [*map(number, errors), times, *map(number, grid_errors), summed_verdict(model, theirs)]
            rows.append([kind_of(ours), *columns])
        told = f"The weights of the paper's authors (`{rival}`), evaluated here on the same cases:"
        paragraphs += [told, table(heading, rows)]
    return paragraphs


def sample_paragraphs(metrics: dict[str, Any]) -> list[str]:
    """Give the errors on the released test samples, one by one."""
    if "released_samples" not in metrics:
        return []
    samples = metrics["released_samples"]
    heading = ["`rel_l2`", *(f"sample {index + 1}" for index in range(samples["cases"])), "mean `grid_mae`"]
    rows = []
    for name, found in samples["models"].items():
        mean = sum(found["grid_mae"]) / len(found["grid_mae"])
        rows.append([name, *map(number, found["rel_l2"]), number(mean)])
    return [f"Errors on the {samples['cases']} test samples released with the paper:", table(heading, rows)]
