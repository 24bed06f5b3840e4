"""One run of a comparison: train a model, measure it, and record the results."""

import json
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from disol._devices import find_device
from disol._files import written_whole
from disol.comparison.config import ComparisonConfig
from disol.comparison.plan import Places, PlannedRun
from disol.comparison.records import ERRORS, RecordedTest, RunRecord, Shown, pack, write_record
from disol.data import CaseDataset, open_store
from disol.data.recipe import SPLITS
from disol.evaluation import evaluate
from disol.evaluation.run import find_predictable
from disol.models import Checkpoint, build_network, count_parameters, find_settings, load_checkpoint
from disol.models.table import MODELS, count_real_numbers
from disol.problems.problem import TRAINED_UNTIL
from disol.training import read_history, train
from disol.training.epochs import DivergedError

TIMED_BATCH = 64  # cases predicted at once when inference is timed
TIMED_SECONDS = 0.5
TIMED_REPEATS = 20


def execute(run: PlannedRun, places: Places, device: str = "auto", side_by_side: int = 1) -> RunRecord:
    """Train a model, or continue its interrupted training, evaluate it and write its results."""
    config, entry, folder = run.config, run.entry, places.run(run)
    problem, data = config.problem, places.data(config)
    settings = dict(entry.settings)
    if entry.parameters:
        settings = find_settings(entry.name, problem, entry.parameters, **settings).as_dict()
    diverged = ""
    try:
        train(
            problem,
            data,
            folder,
            model=entry.name,
            recipe=config.recipe,
            overrides=[f"train.{name}={value}" for name, value in run.changes.items()],
            model_settings=settings,
            minutes=run.minutes,
            resume=True,
            device=device,
            seed=run.seed,
            progress=False,
        )
    except DivergedError as error:
        diverged = str(error)
    store, asked = open_store(data), entry.training_cases or None
    network = build_network(entry.name, problem, settings, run.seed, resolutions=[store.settings.resolution])
    positions = store.positions("train")[:asked]
    cases = len(find_predictable(network, store, positions))
    target, tests, inference = find_device(device), {}, 0.0
    if not diverged and not run.is_probe:
        checkpoint = load_checkpoint(folder, problem, model=None if entry.name in MODELS else network)
        checkpoint.network.to(target).eval()
        tests = {name: _measure(checkpoint, run, places, name, device) for name in config.tests}
        inference = _time_inference(checkpoint.network, run, places, target)
    curve = tuple(read_history(folder))
    record = RunRecord(
        identity=run.identity,
        model_config=dict(getattr(getattr(network, "config", None), "as_dict", lambda: settings)()),
        parameters=count_parameters(network),
        real_numbers=count_real_numbers(network),
        cases=cases,
        refused=len(positions) - cases,
        curve=curve,
        seconds=curve[-1].seconds if curve else 0.0,
        device=torch.cuda.get_device_name(target) if target.type == "cuda" else "CPU",
        side_by_side=side_by_side,
        inference=inference,
        batch_size=TIMED_BATCH,
        tests=tests,
        diverged=diverged,
    )
    write_record(record, places.record(run.name))
    return record


def _measure(checkpoint: Checkpoint, run: PlannedRun, places: Places, name: str, device: str) -> RecordedTest:
    """Evaluate a model on a test; if it can predict no case of it, there are no errors."""
    path, split, asked = places.test(run.config, name), name if name in SPLITS else "all", run.config.tests[name]
    if name == "train" and run.entry.training_cases:
        asked = min(asked, run.entry.training_cases)
    store = open_store(path)
    positions = store.positions(split)[:asked]
    if not len(find_predictable(checkpoint.network, store, positions)):
        return RecordedTest(len(positions), (), (), 0.0, {error: np.zeros(0) for error in ERRORS})
    found = evaluate(checkpoint, path, split=split, first=asked, device=device, progress=False).files[0]
    wanted = run.config.report.shown if run.seed == run.config.seeds[0] and name not in SPLITS else 0
    dataset, shown = _open_shown(path), []
    for position in find_predictable(checkpoint.network, store, positions[:wanted]):
        inputs = dataset[int(position)]["inputs"][None].to(next(checkpoint.network.parameters()).device)
        with torch.no_grad():
            shown.append(Shown(int(position), checkpoint.network(inputs)[0].float().cpu().numpy()))
    return RecordedTest(
        asked=len(positions),
        index=tuple(int(each) for each in found.index),
        shift=found.shift,
        coverage=float(found.coverage.mean()),
        errors={error: found.values[error].mean(axis=0) for error in ERRORS},
        shown=tuple(shown),
    )


def write_shown_cases(config: ComparisonConfig, places: Places) -> None:
    """Write what pictures show of the first cases of each test besides predictions: channels and exact patterns."""
    tests: dict[str, list[dict[str, Any]]] = {}
    for name in config.tests:
        if name not in SPLITS:
            path = places.test(config, name)
            dataset = _open_shown(path)
            first = [dataset[position] for position in range(min(config.report.shown, len(dataset)))]
            tests[name] = [
                {
                    "inputs": [pack(channel) for channel in item["inputs"].numpy()],
                    "pattern": pack(item["target"].numpy()),
                }
                for item in first
            ]
    with written_whole(places.cases) as temporary:
        temporary.write_text(json.dumps(tests, separators=(",", ":")) + "\n", encoding="utf-8")


def _open_shown(path: Path) -> CaseDataset:
    """Open a file to show its cases; those of a transient problem at the last time that is trained on."""
    times = open_store(path).settings.times
    return CaseDataset(path, "all", frame=sum(time <= TRAINED_UNTIL for time in times) - 1 if times else None)


@torch.no_grad()
def _time_inference(network: nn.Module, run: PlannedRun, places: Places, device: torch.device) -> float:
    """Return the seconds per case that the prediction of a batch takes, the median of several."""
    path = places.data(run.config)
    store = open_store(path)
    positions = find_predictable(network, store, store.positions("validation")[:TIMED_BATCH])
    dataset = _open_shown(path)
    inputs: Tensor = torch.stack([dataset[int(each)]["inputs"] for each in np.resize(positions, TIMED_BATCH)])
    inputs = inputs.to(device)
    taken: list[float] = []
    while len(taken) <= TIMED_REPEATS and sum(taken) < TIMED_SECONDS:  # the first one warms up
        started = time.perf_counter()
        network(inputs)
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        taken.append(time.perf_counter() - started)
    return median(taken[1:] or taken) / TIMED_BATCH
