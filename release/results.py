"""Write docs/results.md and the model cards from what is stored with the shipped models; nothing is evaluated.

    python release/results.py

With --check nothing is written, and the exit status is 1 if a page is not what the models give.
"""

import argparse
import os
from pathlib import Path
from typing import Any

from card_page import last_time, solved_paragraphs, write_card
from comparison import (
    comparison,
    rival_paragraphs,
    sample_paragraphs,
    shape_sentences,
    summed_verdict,
    verdict_sentences,
)
from disol import DisolError
from disol._files import written_whole
from disol.models import Checkpoint, load_checkpoint
from disol.models.known_errors import frames_of, headline
from disol.models.pretrained import PRETRAINED
from disol.problems import PROBLEMS
from paper import note_on
from wording import bullets, kind_of, number, over_times, page, seconds, table, training_sentence

PAGE = Path(__file__).parents[1] / "docs" / "results.md"
EXAMPLES = ("examples", "best", "median", "worst")
# What the training losses measure, by their name in a recipe. Validation uses the first, whatever the recipe.
LOSSES = {
    "grid-l1": "`grid_mae`",
    "relative-l1": "relative L1 error",
    "relative-l2": "relative L2 error",
    "relative-h1": "relative H1 error (that of the values plus half that of the slopes)",
}
WRITTEN = """\
This page is written by `python release/results.py` from the `metrics.json` of the models that ship with the package \
(`disol.load(name)`). The shipped weights are stored in half precision; all errors on this page were measured with \
these weights."""
METRICS = """\
Every case is measured over its own domain. Unless a table says otherwise, an error is the mean over the cases of a \
test; p95 is the 95th percentile."""
MEANINGS = (
    "`rel_l2` is the relative L2 error of the pattern, ‖û − u‖ / ‖u‖.",
    "`mae` is the mean absolute error of the pattern, whose largest value is 1.",
    "`grid_mae` is the mean absolute error of the pattern over the whole grid, zeros outside the domain included. It "
    "shrinks with the coverage, the share of the grid that domains cover, so tables state the coverage beside it.",
)
JUDGED = """\
The test cases are drawn from the paper's training distribution (in distribution) or with one of the [shifts](\
discretisation.md#drawing). Out of distribution, judge a model by `rel_l2` and `mae`, shape by shape."""
FIGURES = """\
The paper's figures, in `release/paper.toml`, stand beside ours. A target is the figure of the paper's DiSOL, in or \
out of distribution; it is met if ours is not larger, and none where the paper has no figure to compare with. Three \
things limit the comparison:"""
CAVEATS = (
    "The paper's tables call their numbers relative L2, but this page reads them as `grid_mae`. That is an inference "
    "from the released Poisson weights: their stored loss and their `grid_mae` on the released samples are those "
    "numbers, while their relative L2 errors are ten times larger. The other tables are consistent with this reading, "
    "except for one figure of elasticity.",
    "The paper's figures are for its own cases, ours for cases drawn by this package, which are harder: the authors' "
    "weights have a `grid_mae` of 6.0e-3 on ours and of 3.9e-3 on their own.",
    "The shipped networks are not the paper's: they have coarse sweeps, and were trained by another recipe.",
)


def write_page(shipped: dict[str, Checkpoint], pictures: str) -> str:
    """Return the page about all models; `pictures` is where it finds theirs."""
    paragraphs = [
        "# Results",
        WRITTEN,
        METRICS,
        bullets(MEANINGS),
        JUDGED,
        FIGURES,
        bullets(CAVEATS),
        overview(shipped),
    ]
    for name, model in shipped.items():
        paragraphs += section(name, model, f"{pictures}/{name}")
    return page(paragraphs)


def find_models(folder: Path) -> dict[str, Checkpoint]:
    """Load all shipped models, in the order of their problems."""
    found = {path.parent.name: load_checkpoint(path.parent) for path in sorted(folder.glob("*/config.json"))}
    if not found:
        raise DisolError(f"{folder} must hold shipped models, but holds none. Ship one with release/ship.py.")
    order = list(PROBLEMS)
    return dict(sorted(found.items(), key=lambda item: order.index(item[1].problem.name)))


def overview(shipped: dict[str, Checkpoint]) -> str:
    """List the models with their mean `rel_l2` in and out of distribution, and whether they meet the targets."""
    rows = []
    for name, model in shipped.items():
        tests = model.metrics["tests"].values()
        errors = [f"{number(headline(test))} ({kind_of(test)})" for test in tests]
        errors += sorted({f"each the {text}" for text in map(over_times, tests) if text})
        verdicts = [f"{kind_of(test)}: {summed_verdict(model, test)}" for test in tests]
        size = f"{model.metrics['num_parameters'] / 1e6:.3g} M"
        link = f"[`{name}`](#{name})"
        rows.append([link, f"`{model.conventions}`", size, "<br>".join(errors), "<br>".join(verdicts)])
    return table(["model", "conventions", "parameters", "mean `rel_l2`", "target (the paper's figure)"], rows)


def section(name: str, model: Checkpoint, pictures: str) -> list[str]:
    """Return the paragraphs about one model."""
    metrics, tests = model.metrics, model.metrics["tests"]
    return [
        f"## {name}",
        f"Problem `{model.problem.name}`, {metrics['run']['data.equation']}, on {model.card.grids} grids with the "
        f"conventions `{model.conventions}`. Network `{model.card.model}` with {metrics['num_parameters']:,} "
        f"parameters. {training_sentence(metrics)}",
        comparison(model),
        *note_on(model.problem.name),
        *verdict_sentences(model),
        *shape_sentences(model),
        *rival_paragraphs(name, model),
        *sample_paragraphs(metrics),
        *solved_paragraphs(tests, last_time(model.metrics)),
        *picture_paragraphs(name, metrics, pictures),
    ]


def picture_paragraphs(name: str, metrics: dict[str, Any], folder: str) -> list[str]:
    """Show the losses, the spread of errors, and examples of every test."""
    paragraphs = [
        f"![Losses of {name} over epochs]({folder}/losses.png)",
        f"*{losses_caption(metrics['run'])}*",
        f"![Spread of the errors of {name}]({folder}/errors.png)",
        f"*How the errors of `{name}` are spread over the cases of each test{together(metrics['tests'])}.*",
    ]
    if "errors-over-time.png" in metrics["pictures"]:
        paragraphs += [
            f"![Errors of {name} over time]({folder}/errors-over-time.png)",
            f"*Errors over time: median, and 5 % to 95 %; training ends at {last_time(metrics):g} s.*",
        ]
    for key, test in metrics["tests"].items():
        drawn = [f"{key}-{kind}.png" for kind in EXAMPLES if f"{key}-{kind}.png" in metrics["pictures"]]
        links = [f"![Examples of {name}, {kind_of(test)}]({folder}/{picture})" for picture in drawn]
        shown = ", ".join(f"{rank} (case {index})" for rank, index in test["examples"].items())
        by = "mean `rel_l2` over these times" if "frames" in test else "`rel_l2`"
        caption = f"*`{name}`, {kind_of(test)}: {shown} of {test['cases']:,} cases by {by}, seed {test['seed']}.*"
        paragraphs += [*links, caption] if links else []
    return paragraphs


def losses_caption(run: dict[str, Any]) -> str:
    """Say what the two curves of a run are."""
    averaged = ", of the EMA of the weights, which the checkpoint holds" if run["train.ema_decay"] else ""
    return (
        f"Training loss: {LOSSES[run['train.loss']]}, averaged over the steps of each epoch. "
        f"Validation: `grid_mae` after each epoch{averaged}."
    )


def together(tests: dict[str, Any]) -> str:
    """Say at which times a transient problem was tested; a picture takes them together, unlike the headline."""
    times = sorted({time for test in tests.values() for time, _ in frames_of(test) if time is not None})
    return f", at {seconds(times)} together" if times else ""


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    parser.add_argument("--models", type=Path, default=PRETRAINED, help="where shipped models live")
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--pictures", type=Path, default=PAGE.with_suffix(""), help="where their pictures are")
    options = parser.parse_args(arguments)
    try:
        shipped = find_models(options.models)
        pictures = Path(os.path.relpath(options.pictures, options.page.parent)).as_posix()
        pages = {options.page: write_page(shipped, pictures)}
        pages |= {
            options.models / name / "README.md": write_card(name, model.card, model.metrics)
            for name, model in shipped.items()
        }
        for path, text in pages.items():
            if not options.check:
                with written_whole(path) as temporary:
                    temporary.write_text(text, encoding="utf-8")
            elif not path.exists() or path.read_text(encoding="utf-8") != text:
                parser.exit(1, f"{path} is not what the shipped models give. Run python release/results.py.\n")
    except DisolError as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    main()
