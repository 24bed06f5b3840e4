"""The runs of a comparison: which there are, what decides how each goes, and where its files are."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from disol.comparison.config import IN_DISTRIBUTION, PROBED, SHARED, ComparisonConfig, DataSettings, ModelEntry
from disol.comparison.records import RunRecord, read_record, require_same
from disol.data.generate import generate
from disol.data.recipe import SPLITS
from disol.training.config import TrainSettings

FEW_CASES = 1000  # that are generated sooner by one process than others are started


@dataclass(frozen=True)
class PlannedRun:
    """One training of a model, and what is measured after it.

    learning_rate   at its peak
    is_probe        a short run that only tells how good its learning rate is
    """

    config: ComparisonConfig
    label: str
    seed: int
    learning_rate: float
    is_probe: bool = False

    @property
    def name(self) -> str:
        """Names its files."""
        return f"{self.label}-lr{self.learning_rate:g}-" + ("probe" if self.is_probe else f"seed{self.seed}")

    @property
    def entry(self) -> ModelEntry:
        """The model."""
        return next(entry for entry in self.config.models if entry.label == self.label)

    @property
    def changes(self) -> dict[str, Any]:
        """Changes of the recipe."""
        own: dict[str, Any] = {"learning_rate": self.learning_rate}
        if self.entry.training_cases:
            own["training_cases"] = self.entry.training_cases
        if self.is_probe:
            own["epochs"] = self.config.probes.epochs
        return {**self.config.changes, **own}

    @property
    def minutes(self) -> float | None:
        """How long it trains; None if it ends after its epochs."""
        return None if self.is_probe else self.config.minutes

    @property
    def train_settings(self) -> TrainSettings:
        """How the model is trained."""
        return self.config.choose(self.changes).train

    @cached_property
    def identity(self) -> dict[str, Any]:
        """Everything that decides how the run goes and what is measured, as JSON has it."""
        config = self.config
        known = {
            "problem": config.problem,
            "conventions": config.conventions,
            "data": asdict(config.data),
            "tests": {} if self.is_probe else {"seed": config.test_seed, **config.tests},
            "recipe": config.recipe,
            "train": self.train_settings.as_dict(),
            "minutes": self.minutes,
            "model": self.entry.name,
            "parameters": self.entry.parameters,
            "settings": dict(self.entry.settings),
            "seed": self.seed,
        }
        return json.loads(json.dumps(known))


@dataclass(frozen=True)
class Places:
    """Where the files of a comparison are.

    out    what is kept: the results of runs, tables, pictures
    work   what can be made again: files of cases, and the folders of runs with their weights
    """

    out: Path
    work: Path

    def record(self, name: str) -> Path:
        """The results of a run."""
        return self.out / "runs" / f"{name}.json"

    def run(self, run: PlannedRun) -> Path:
        """The folder of a run."""
        return self.work / run.name

    @property
    def cases(self) -> Path:
        """The cases that pictures show."""
        return self.out / "cases.json"

    def data(self, config: ComparisonConfig) -> Path:
        """The file of cases to train on."""
        return Path(config.data.file) if config.data.file else self.work / "data" / "cases.h5"

    def test(self, config: ComparisonConfig, name: str) -> Path:
        """The file of cases of a test."""
        return self.data(config) if name in SPLITS else self.work / "data" / f"{name.replace(':', '-')}.h5"


def plan_runs(config: ComparisonConfig, records: Mapping[str, RunRecord], labels: Iterable[str]) -> list[PlannedRun]:
    """List the runs of some models; those at learning rates that no probes have found yet are not known.

    All models at the learning rate that they share come first, then probes, then the others, and those of the first
    seed before those of the second: what is finished can be compared early.
    """
    chosen = list(labels)
    known = [PlannedRun(config, label, config.seeds[0], config.train_settings.learning_rate) for label in chosen]
    for label in chosen:
        known += list_probes(config, label)
    for seed in config.seeds:
        for label in chosen:
            rates = [find_rate(config, records, label, column) for column in list_columns(config)]
            known += [PlannedRun(config, label, seed, rate) for rate in rates if rate is not None]
    return list({run.name: run for run in known}.values())


def list_columns(config: ComparisonConfig) -> tuple[str, ...]:
    """List the columns of a table: runs at the learning rate of the recipe and, if there are probes, at the best."""
    return (SHARED, PROBED) if config.probes.learning_rates else (SHARED,)


def list_probes(config: ComparisonConfig, label: str) -> list[PlannedRun]:
    """List the probes of a model."""
    return [PlannedRun(config, label, config.seeds[0], rate, is_probe=True) for rate in config.probes.learning_rates]


def find_rate(config: ComparisonConfig, records: Mapping[str, RunRecord], label: str, column: str) -> float | None:
    """Return the learning rate of a model in a column; None while its probes are not finished."""
    if column == SHARED:
        return config.train_settings.learning_rate
    probes = list_probes(config, label)
    if any(probe.name not in records for probe in probes):
        return None
    return min(probes, key=lambda probe: records[probe.name].best_loss).learning_rate


def read_records(config: ComparisonConfig, places: Places, labels: Iterable[str]) -> dict[str, RunRecord]:
    """Read the results of all finished runs of some models, by their names; those with other settings are refused."""
    records: dict[str, RunRecord] = {}
    chosen, known = list(labels), -1
    while known < len(records):  # the results of probes tell which runs there are
        known = len(records)
        for run in plan_runs(config, records, chosen):
            path = places.record(run.name)
            if run.name not in records and path.exists():
                record = read_record(path)
                defaults = {"train": config.choose({}).train.as_dict(), "data": asdict(DataSettings())}
                require_same(record, run.identity, defaults, path)
                records[run.name] = record
    return records


def make_files(config: ComparisonConfig, places: Places, device: str) -> None:
    """Generate the files of cases that are not there yet, or not finished."""
    data = config.data
    asked = {} if data.file else {places.data(config): (data.cases, data.seed, data.shift or None)}
    for name, cases in config.tests.items():
        if name not in SPLITS:
            shift = None if name == IN_DISTRIBUTION else name
            asked[places.test(config, name)] = (cases, config.test_seed, shift)
    for path, (cases, seed, shift) in asked.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        generate(
            config.problem,
            cases,
            path,
            seed=seed,
            shift=shift,
            conventions=config.conventions,
            resolution=data.resolution or None,
            device=device,
            workers=0 if cases <= FEW_CASES else None,
            resume=True,
            progress=False,
        )
