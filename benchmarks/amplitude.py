"""Find the amplitude u_lim = max |U| without solving: by a trained regressor, or from a pattern and the system.

    python benchmarks/amplitude.py --model poisson --regressor runs/amplitude --tests id.h5 all.h5 shapes.h5
    python benchmarks/amplitude.py --data train.h5 --minutes 3 ...     train the regressor first, if there is none

All three ways get the same cases, which are drawn again by the settings stored in the test files:

    regressor      ln u_lim by the DiSOL backbone with a scalar output
    energy         a = (p · b) / (p · A p) for the predicted pattern p at the nodes: the multiple of least energy
    V-cycle        the same after one multigrid V-cycle, which smooths what the energy weighs most

`model.verify` solves the system instead, so its amplitudes have no error. This script measures the errors of cheaper
ways.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

import disol
from disol import Case, Surrogate
from disol._files import written_whole
from disol.data import open_store
from disol.data.recipe import Recipe, read_recipe
from disol.evaluation import Evaluation, FileEvaluation, Summary, evaluate, summarise
from disol.evaluation.pictures import draw_amplitudes
from disol.fem import System
from disol.grid import node_means, pixel_means
from disol.models.card import CARD
from disol.solvers import DiscreteOperator, Multigrid, from_system
from disol.solvers.operator import inner_product
from disol.training import train
from disol.training.resuming import LAST
from report import processor, publish, table

PICTURE = Path("../images/amplitude.png")  # from the page
NAMES = {"id": "in distribution", "all": "shifted by all", "shapes": "named shapes"}
REGRESSOR, ENERGY, CYCLE = "regressor", "energy", "V-cycle"
CASES_AT_ONCE = 64


def trained_regressor(options: argparse.Namespace) -> Path:
    """Return the folder of the regressor; train it if there is no finished run."""
    folder: Path = options.regressor
    if not (folder / CARD).exists() or (folder / LAST).exists():
        if options.data is None:
            raise SystemExit(f"{folder} holds no finished run. Pass --data to train a regressor there.")
        train(
            open_store(options.data).settings.problem,
            options.data,
            folder,
            model="disol-amplitude",
            minutes=options.minutes,
            overrides=options.set,
            resume=True,
            device=options.device,
        )
    return folder


def first_cases(evaluation: Evaluation, count: int) -> Evaluation:
    """Return an evaluation of the first cases of each file."""
    return replace(evaluation, files=tuple(first_of(file, count) for file in evaluation.files))


def first_of(file: FileEvaluation, count: int) -> FileEvaluation:
    """Return an evaluation of the first cases of a file."""
    return replace(
        file,
        index=file.index[:count],
        shift=file.shift[:count],
        outline=file.outline[:count],
        coverage=file.coverage[:count],
        values={name: values[:, :count] for name, values in file.values.items()},
    )


def recipe_of(file: FileEvaluation) -> Recipe:
    """Return how the cases of a file were drawn."""
    told = file.settings
    return read_recipe(told.problem, told.seed, told.shift, told.conventions, told.resolution)


def energy_scale(operator: DiscreteOperator, loads: torch.Tensor, nodes: torch.Tensor) -> torch.Tensor:
    """Return the multiple of least energy."""
    return inner_product(nodes, loads) / operator.energy(nodes, nodes)


def energy_amplitudes(model: Surrogate, cases: list[Case]) -> dict[str, np.ndarray]:
    """Return a = (p · b) / (p · A p) for the predicted patterns p, whose maximum is 1, and the same after a V-cycle."""
    found: dict[str, list[float]] = {ENERGY: [], CYCLE: []}
    for start in range(0, len(cases), CASES_AT_ONCE):
        chunk = cases[start : start + CASES_AT_ONCE]
        pattern = torch.from_numpy(model.predict_pattern(np.stack([case.inputs for case in chunk]))).double()
        operator, loads = from_system(System.stack([case.system() for case in chunk]))
        if not operator.is_symmetric:
            raise SystemExit(f"The energy needs a symmetric problem, got {model.problem}. Use poisson.")
        nodes = operator.restrict(node_means(pattern[:, 0], operator.mask)[:, None])
        scale = energy_scale(operator, loads, nodes)
        nodes = scale[:, None, None, None] * nodes
        cycled = nodes + Multigrid.of(operator).v_cycle(operator.residual(nodes, loads))
        largest = (pixel_means(cycled) * operator.mask[:, None]).abs().amax(dim=(1, 2, 3))
        found[ENERGY] += scale.tolist()
        found[CYCLE] += (energy_scale(operator, loads, cycled) * largest).tolist()
    return {name: np.array(values) for name, values in found.items()}


def errors_of(file: FileEvaluation, model: Surrogate) -> dict[str, Summary]:
    """Return the relative amplitude errors |û_lim / u_lim − 1| of the three ways on one file."""
    recipe = recipe_of(file)
    cases = [recipe.draw(int(index)) for index in file.index]
    true = np.exp(file.values["log_amplitude"][0])
    errors = {REGRESSOR: file.values["rel_amplitude_error"][0]}
    errors |= {name: np.abs(found / true - 1) for name, found in energy_amplitudes(model, cases).items()}
    return {name: summarise(values) for name, values in errors.items()}


def rows_of(file: FileEvaluation, errors: dict[str, Summary]) -> list[list[str]]:
    """Write the rows of one file."""
    rows = []
    for name, summary in errors.items():
        correlation = f"{file.correlations[0]:.4f}" if name == REGRESSOR else "-"
        numbers = [f"{100 * value:.3g} %" for value in (summary.median, summary.mean, summary.p95)]
        rows.append([NAMES.get(file.name, file.name), str(len(file)), name, *numbers, correlation])
    return rows


def findings(measured: dict[str, dict[str, Summary]]) -> str:
    """Say which way has the smallest median error on each file, and how much larger the others are."""
    lines = []
    for name, errors in measured.items():
        best, *others = sorted(errors, key=lambda way: errors[way].median)
        times = ", ".join(f"{errors[way].median / errors[best].median:.3g} times that for `{way}`" for way in others)
        lines.append(f"- {NAMES.get(name, name)}: `{best}`, {100 * errors[best].median:.2g} %; {times}")
    return "\n".join(["The smallest median errors:", "", *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="predicts patterns: a name, or the folder of a run")
    parser.add_argument("--regressor", required=True, type=Path, help="folder of a run of disol-amplitude")
    parser.add_argument("--tests", required=True, nargs="+", type=Path)
    parser.add_argument("--data", type=Path, help="cases to train the regressor on, if its folder has no finished run")
    parser.add_argument("--minutes", type=float, default=3.0, help="to train the regressor")
    parser.add_argument("--set", nargs="*", default=[], help="settings of its training, as in train.batch_size=64")
    parser.add_argument("--cases", type=int, default=300, help="the first cases of each file")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--write", type=Path, help="where to write the page; its picture goes to ../images")
    options = parser.parse_args()
    regressor = trained_regressor(options)
    model = disol.load(options.model, device=options.device)
    evaluation = first_cases(evaluate(regressor, options.tests, device=options.device), options.cases)
    measured = {file.name: errors_of(file, model) for file in evaluation.files}
    if options.write is not None:
        with written_whole(options.write.parent / PICTURE) as path:
            draw_amplitudes(evaluation).savefig(path, dpi=130)
    rows = [row for file in evaluation.files for row in rows_of(file, measured[file.name])]
    logarithmic = ", ".join(
        f"{file.summaries[0]['squared_log_error'].mean:.1e} {NAMES.get(file.name, file.name)}"
        for file in evaluation.files
    )
    size = evaluation.model["num_parameters"]
    gpu = f"{torch.cuda.get_device_name()}, " if model.engine.device.type == "cuda" else ""
    publish(
        [
            "# Amplitudes",
            f"Written by `python benchmarks/amplitude.py --cases {options.cases}`.",
            f"Three ways to find the amplitude u_lim = max |U| of a case without solving it, for {model.problem} with "
            f"the conventions `{model.conventions}`:",
            f"- `{REGRESSOR}`: the DiSOL backbone with a scalar output ({size:,} parameters), trained on ln u_lim\n"
            f"- `{ENERGY}`: the multiple of the predicted pattern p that has the least energy, (p · b) / (p · A p)\n"
            f"- `{CYCLE}`: the same after one multigrid V-cycle",
            "The last two use the equation; the regressor has to learn it. `model.verify` solves the system, so its "
            "amplitudes have no error. The table lists relative errors of u_lim.",
            f"Machine: {gpu}torch {torch.__version__}; {processor()}.",
            table(["kind of cases", "cases", "amplitude by", "median", "mean", "p95", "correlation of ln u_lim"], rows),
            findings(measured),
            f"Mean squared error of the regressor's ln u_lim: {logarithmic}.",
            f"![Predicted against true amplitudes]({PICTURE})",
            "*ln u_lim as the regressor predicts it, against the true value. One dot per case.*",
        ],
        options.write,
    )


if __name__ == "__main__":
    main()
