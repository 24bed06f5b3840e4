"""Settings of a comparison: one problem, its cases and tests, and the models that are trained alike; without torch.

A file of settings is TOML, and an unknown key is an error:

    problem = "poisson"                # or "package.module:NAME" of your own
    conventions = "paper"
    recipe = "fast"                    # of training, for all models
    seeds = [0]                        # every model is trained once with each
    minutes = 5                        # of each run, instead of train.epochs

    [data]                             # to generate: cases, seed, shift, resolution; or your own file
    cases = 46011

    [tests]                            # cases of each test, by its name
    id = 500
    shapes = 500

    [train]                            # changes to the recipe, for all models
    epochs = 100

    [probes]                           # a second column, each model at its own learning rate
    learning_rates = [1e-3, 3e-3]
    epochs = 5

    [[models]]
    name = "fno"
    parameters = 0.13e6
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from disol._checks import count, number, positive_number, whole_number
from disol._files import read_regular
from disol._lazy import names_own
from disol.data.recipe import SPLITS, read_recipe
from disol.errors import DisolError, listed, shown
from disol.models.settings import check_setting
from disol.models.table import find_model
from disol.problems import Problem
from disol.problems.table import find_conventions, find_problem
from disol.training.config import MOST_BYTES, RunSettings, TrainSettings, choose_settings, read_value

IN_DISTRIBUTION = "id"
SHARED, PROBED = "shared", "probed"  # which learning rate a run has
_PLAIN = {"problem", "conventions", "recipe", "seeds", "minutes"}


@dataclass(frozen=True)
class DataSettings:
    """The cases that models are trained and validated on.

    cases        number of cases to generate, of which 80 % are for training
    seed         which sequence of cases
    shift        their distribution: empty for the paper's, "broad" for many kinds
    resolution   pixels along a side; 0: those of the problem
    file         your own file to train on instead, relative to the working directory
    """

    cases: int = 0
    seed: int = 0
    shift: str = ""
    resolution: int = 0
    file: str = ""


@dataclass(frozen=True)
class ProbeSettings:
    """Short runs that find the learning rate of each model: the one with the smallest validation loss.

    learning_rates   to try
    epochs           of each probe, with a schedule of that length
    """

    learning_rates: tuple[float, ...] = ()
    epochs: int = 5


@dataclass(frozen=True)
class ReportSettings:
    """What tables and pictures show.

    shown       how many cases of each test are in pictures, the first ones; none of the training file
    threshold   of the validation loss (`grid_mae`), for the number of epochs that a model needs to reach it
    timed       compare times; false if the devices did other work beside the runs
    """

    shown: int = 1
    threshold: float = 5e-3
    timed: bool = True


@dataclass(frozen=True)
class ModelEntry:
    """A model of a comparison.

    name             in the table of models, or "package.module:Name" of your own network
    label            its name in tables, unique in the comparison; `name` unless given
    parameters       approximate number of parameters; 0: as its settings say
    training_cases   number of cases that it is trained on; 0: all
    settings         of the network
    """

    name: str
    label: str = ""
    parameters: float = 0.0
    training_cases: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ComparisonConfig:
    """What is compared, and how.

    name      of the comparison, that of its file
    problem   of the package, or your own
    tests     number of cases of each, by name: "train" and "validation" (the first cases of that split of the training
              file), "id" (new cases of the paper's distribution), or any shift
    changes   to the recipe, for all models
    minutes   of each run; None if runs end after their epochs
    """

    name: str
    problem: Problem
    conventions: str
    recipe: str
    data: DataSettings
    tests: Mapping[str, int]
    test_seed: int
    changes: Mapping[str, Any]
    minutes: float | None
    seeds: tuple[int, ...]
    probes: ProbeSettings
    report: ReportSettings
    models: tuple[ModelEntry, ...]

    @property
    def train_settings(self) -> TrainSettings:
        """How every model is trained, except for its learning rate where it has its own."""
        return self.choose(self.changes).train

    def choose(self, changes: Mapping[str, Any]) -> RunSettings:
        """Return the settings of a run: the recipe with changes."""
        overrides = [f"train.{name}={value}" for name, value in changes.items()]
        return choose_settings(self.problem.name, recipe=self.recipe, overrides=overrides)

    def chosen_labels(self, only: Iterable[str]) -> tuple[str, ...]:
        """Return the labels of some models, given by their labels or names; all of them if none is given."""
        wanted = [only] if isinstance(only, str) else list(only)
        known = {each for entry in self.models for each in (entry.label, entry.name)}
        for each in wanted:
            if each not in known:
                labels = ", ".join(entry.label for entry in self.models)
                raise DisolError(f"only must name models of the comparison, {labels}, got {shown(each)}.")
        return tuple(entry.label for entry in self.models if not wanted or {entry.label, entry.name} & set(wanted))


def read_comparison(path: str | Path, overrides: Iterable[str] = ()) -> ComparisonConfig:
    """Read a file of settings and check it.

    overrides   changes to single settings, such as "data.cases=2000", "train.epochs=2" or "minutes=0.5"
    """
    source = Path(path)
    content = _read_content(source, overrides)
    sections = {"data": dict, "tests": dict, "train": dict, "probes": dict, "report": dict, "models": list}
    for name, value in content.items():
        if name not in _PLAIN and name not in sections:
            raise DisolError(f"{source} has no setting {shown(name)}. It can have {', '.join([*_PLAIN, *sections])}.")
        if name in sections and not isinstance(value, sections[name]):
            raise DisolError(f"{name} of {source} must be a section [{name}], got {shown(value)}.")
    for name in ("problem", "conventions", "data", "models"):
        if name not in content:
            raise DisolError(f"{source} must have {name}. Name what is compared, and on which cases.")
    problem = find_problem(check_setting("problem", content["problem"], str))
    tests = {name: whole_number(f"tests.{name}", value) for name, value in content.get("tests", {}).items()}
    minutes, seeds = content.get("minutes"), content.get("seeds", [0])
    if not isinstance(seeds, list) or not seeds:
        raise DisolError(f"seeds must be one whole number or more in brackets, got {shown(seeds)}.")
    config = ComparisonConfig(
        name=source.stem,
        problem=problem,
        conventions=find_conventions(content["conventions"], problem).name,
        recipe=content.get("recipe", "fast"),
        data=_read_section(DataSettings, "data", content["data"]),
        test_seed=tests.pop("seed", 1),
        tests={name: count(f"tests.{name}", value) for name, value in tests.items()},
        changes=content.get("train", {}),
        minutes=None if minutes is None else positive_number("minutes", minutes),
        seeds=tuple(whole_number("seeds", seed) for seed in seeds),
        probes=_read_section(ProbeSettings, "probes", content.get("probes", {})),
        report=_read_section(ReportSettings, "report", content.get("report", {})),
        models=tuple(_read_model(table, problem.name) for table in content["models"]),
    )
    _check(config, source)
    return config


def list_own(path: str | Path, overrides: Iterable[str] = ()) -> list[str]:
    """List what reading a file of settings and using it imports: "package.module:Name" of its problem and models."""
    content = _read_content(Path(path), overrides)
    models = content.get("models")
    tables = [table for table in models if isinstance(table, dict)] if isinstance(models, list) else []
    return [text for text in (content.get("problem"), *(table.get("name") for table in tables)) if names_own(text)]


def _read_content(source: Path, overrides: Iterable[str]) -> dict[str, Any]:
    """Read a file of settings as it is written, and change single ones."""
    try:
        content = tomllib.loads(read_regular(source, MOST_BYTES).decode("utf-8"))
    except (ValueError, RecursionError) as error:
        if isinstance(error, DisolError):
            raise
        raise DisolError(f"{source} must be TOML, but: {listed([str(error)])}.") from None
    for override in [overrides] if isinstance(overrides, str) else overrides:
        _override(content, override)
    return content


def _override(content: dict[str, Any], override: str) -> None:
    """Change one setting of a file: "minutes=2", "train.epochs=3"."""
    key, equals, text = override.partition("=") if isinstance(override, str) else ("", "", "")
    section, dot, name = key.strip().partition(".")
    if not equals or not section or (dot and not name):
        raise DisolError(f"Settings are changed by section.name=value or name=value, got {shown(override)}.")
    if not dot:
        content[section] = read_value(text)
    elif isinstance(content.setdefault(section, {}), dict):
        content[section][name] = read_value(text)
    else:
        raise DisolError(f"{section} is not a section of single settings, got {shown(override)}.")


def _read_section(kind: type[Any], where: str, table: object) -> Any:
    """Read a section into its dataclass."""
    if not isinstance(table, dict):
        raise DisolError(f"{where} must be a section of settings by name, got {shown(table)}.")
    hints = get_type_hints(kind)
    for name in table:
        if name not in hints:
            raise DisolError(f"{where} has no setting {shown(name)}. Its settings are {', '.join(hints)}.")
    smallest = {each.name: 0 for each in fields(kind)} | {"epochs": 1}
    read = {
        name: dict(value)
        if isinstance(value, dict)
        else check_setting(f"{where}.{name}", value, hints[name], smallest[name])
        for name, value in table.items()
    }
    try:
        return kind(**read)
    except TypeError:
        raise DisolError(f"{where} needs a name, got {', '.join(table) or 'nothing'}.") from None


def _read_model(table: object, problem: str) -> ModelEntry:
    """Read a model, and check its settings if it is one of the table."""
    entry: ModelEntry = _read_section(ModelEntry, "models", table)
    if not isinstance(entry.settings, dict):
        raise DisolError(f"models.settings must be settings by name, got {shown(entry.settings)}.")
    if not names_own(entry.name):
        find_model(entry.name).config.for_problem(problem).changed(entry.settings)
    label = entry.label or entry.name.rpartition(":")[2]
    if not label.replace("-", "").replace("_", "").replace(".", "").isalnum() or label.startswith("."):
        raise DisolError(f"models.label must be of letters, digits - _ . only: files are named by it, got {label!r}.")
    return replace(entry, label=label)


def _check(config: ComparisonConfig, source: Path) -> None:
    """Require that all that is asked for exists, before anything is trained."""
    if not config.models:
        raise DisolError(f"{source} must list models to compare, got none.")
    for name, given in (("label", [entry.label for entry in config.models]), ("seeds", list(config.seeds))):
        if len(set(given)) < len(given):
            raise DisolError(f"{name} must differ, got {', '.join(map(str, given))}.")
    data = config.data
    if bool(data.file) == bool(data.cases):
        raise DisolError(f"data of {source} must have cases to generate, or a file.")
    settings = config.train_settings
    if config.minutes is not None and "epochs" in config.changes:
        raise DisolError(f"{source} has both minutes and train.epochs. Keep one of them.")
    for rate in config.probes.learning_rates:
        replace(settings, learning_rate=positive_number("probes.learning_rates", number("probes.learning_rates", rate)))
    if IN_DISTRIBUTION in config.tests and config.test_seed == data.seed:
        raise DisolError(f"tests.seed must differ from data.seed, or tests repeat training cases, got {data.seed}.")
    for name in config.tests:
        if name not in (*SPLITS, IN_DISTRIBUTION):
            read_recipe(config.problem, config.test_seed, name, config.conventions, data.resolution or None)
