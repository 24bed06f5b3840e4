"""Settings of a training run: a recipe, changed by a TOML file, by arguments and by overrides; without torch."""

import json
import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_type_hints

from disol._checks import number
from disol._files import as_path, read_regular
from disol.errors import DisolError, listed, shown
from disol.models.settings import check_setting
from disol.problems.problem import FRAME, TRAINED_UNTIL
from disol.problems.table import find

if TYPE_CHECKING:
    from torch import nn

    # A name, "package.module:Name", a class of networks, or a network.
    Model = str | type[nn.Module] | nn.Module

OptimizerName = Literal["adam", "adamw", "muon"]
ScheduleName = Literal["cosine", "linear", "constant", "plateau"]
PatternLoss = Literal["grid-l1", "relative-l1", "relative-l2", "relative-h1"]
Precision = Literal["auto", "float32", "bfloat16"]
CompileMode = Literal["auto", "off", "on", "graphs"]

MOST_BYTES = 2**20  # of a file of settings
MOST_DOTS = 1000  # of a line: the time to parse a key a.b.c grows with the square of its length
_CONFIG_KEYS = {"problem": str, "recipe": str, "model": dict, "train": dict}
_MAY_BE_ZERO = {"plateau_patience", "training_cases", "validation_cases"}  # among whole numbers
_BELOW_1 = {"warmup", "plateau_factor", "ema_decay"}
_UP_TO_1 = {"min_lr_ratio"}
_JSON_WORDS = {word: word for word in ("true", "false")}  # however they are capitalised
RENAMED = {
    "batch": "batch_size",
    "averaging": "ema_decay",
    "gradient_clip": "grad_clip_norm",
    "final_rate": "min_lr_ratio",
    "symmetry": "augment_symmetry",
    "translation": "augment_translation",
}


@dataclass(frozen=True, repr=False)
class TrainSettings:
    """How a network is trained; the defaults are the recipe "fast".

    epochs                passes over the training cases, unless the run has a time limit
    batch_size            cases per step, over all devices together; with several files, at the resolution of the first
    drop_last             leave cases that do not fill a batch for another epoch; otherwise cases from the beginning of
                          the epoch fill it up, so that every epoch has all cases
    optimizer             adam: L2 penalty; adamw, muon: decoupled weight decay; muon: orthogonalised momentum
    learning_rate         its peak
    weight_decay          its coefficient, in the form that the optimizer has
    schedule              linear warm-up, then cosine, linear or no decay; "plateau" reduces the rate when the
                          validation loss no longer falls, and has no warm-up
    warmup                share of the run in which the rate rises linearly
    min_lr_ratio          final learning rate, as a share of the peak
    plateau_factor        by which "plateau" multiplies the rate
    plateau_patience      "plateau" waits for more than this many epochs without a lower validation loss
    loss                  of networks that predict patterns; for amplitudes it is always the squared error of their
                          logarithm
    augment_symmetry      data augmentation: rotate and mirror every case by a random symmetry of its problem
    augment_translation   data augmentation: move every case to a random place on the grid
    ema_decay             of the exponential moving average (EMA) of the weights, which is validated and kept; 0: no EMA
    grad_clip_norm        largest norm of the gradient; 0: no clipping
    last_time             transient problems: time in seconds of the last frame to train and validate on
    training_cases        number of training cases, the first of each file; 0: all
    validation_cases      number of cases to validate on after each epoch, the first of each file; 0: all
    precision             of the forward pass; "auto": bfloat16 on a GPU with hardware for it (NVIDIA from Ampere on),
                          unless the network asks for float32; float32 elsewhere. Validation is always in float32.
    compile               "on", "graphs" (with CUDA graphs, on one GPU) or "off"; "auto": the fastest that the device
                          and the network allow
    """

    epochs: int = 100
    batch_size: int = 256
    drop_last: bool = True
    optimizer: OptimizerName = "muon"
    learning_rate: float = 3e-3
    weight_decay: float = 1e-4
    schedule: ScheduleName = "cosine"
    warmup: float = 0.05
    min_lr_ratio: float = 0.0
    plateau_factor: float = 0.5
    plateau_patience: int = 10
    loss: PatternLoss = "relative-h1"
    augment_symmetry: bool = True
    augment_translation: bool = False
    ema_decay: float = 0.999
    grad_clip_norm: float = 1.0
    last_time: float = TRAINED_UNTIL
    training_cases: int = 0
    validation_cases: int = 2048
    precision: Precision = "auto"
    compile: CompileMode = "auto"

    def __post_init__(self) -> None:
        for name, kind in get_kinds(TrainSettings).items():
            object.__setattr__(self, name, _checked(f"train.{name}", getattr(self, name), kind))

    def __repr__(self) -> str:
        changed = [each.name for each in fields(self) if getattr(self, each.name) != each.default]
        return f"TrainSettings({', '.join(f'{name}={getattr(self, name)!r}' for name in changed)})"

    def changed(self, settings: Mapping[str, Any]) -> "TrainSettings":
        """Return these settings with some replaced; an unknown one is an error."""
        known = get_kinds(TrainSettings)
        for name in settings:
            if name in RENAMED:
                raise DisolError(f"train.{name} is called train.{RENAMED[name]} now.")
            if name not in known:
                raise DisolError(f"train has no setting {shown(name)}. Its settings are {', '.join(known)}.")
        return replace(self, **settings)

    def batch_size_at(self, resolution: int, first: int) -> int:
        """Return the batch size at a resolution, given that `batch_size` is that at the first one.

        It is halved or doubled until a batch has about as many pixels, so that as many processes can share it.
        """
        halvings = round(2 * math.log2(resolution / first))
        return max(1, int(self.batch_size * 2.0**-halvings))

    def count_batches(self, num_cases: int, batch_size: int) -> int:
        """Return the number of steps of an epoch over `num_cases` cases."""
        return num_cases // batch_size if self.drop_last else -(-num_cases // batch_size)

    def as_dict(self) -> dict[str, Any]:
        """Return the settings by name, as a checkpoint stores them."""
        return asdict(self)


def get_kinds(settings: type) -> dict[str, Any]:
    """Return the declared kind of each setting of a dataclass."""
    hints = get_type_hints(settings)
    return {field.name: hints[field.name] for field in fields(settings)}


def _checked(name: str, value: Any, kind: Any) -> Any:
    """Require that a training setting is of its kind and in its range."""
    short = name.removeprefix("train.")
    if kind is not float:
        return check_setting(name, value, kind, smallest=0 if short in _MAY_BE_ZERO else 1)
    value = number(name, value)
    if short == "last_time" and value < FRAME:
        raise DisolError(f"{name} must be at least {FRAME:g} s, the time of the first frame, got {value!r}.")
    if value < 0 or (short in _BELOW_1 and value >= 1) or (short in _UP_TO_1 and value > 1):
        limits = " and below 1" if short in _BELOW_1 else " and at most 1" if short in _UP_TO_1 else ""
        raise DisolError(f"{name} must be from 0 on{limits}, got {value!r}.")
    return value


PUBLISHED = TrainSettings(
    epochs=500,
    batch_size=200,
    drop_last=False,
    optimizer="adam",
    learning_rate=1e-4,
    weight_decay=1e-5,
    schedule="plateau",
    warmup=0.0,
    loss="grid-l1",
    augment_symmetry=False,
    augment_translation=False,
    ema_decay=0.0,
    grad_clip_norm=0.0,
    validation_cases=0,
    precision="float32",
)
PUBLISHED_EPOCHS = {"advection-diffusion-low": 300, "advection-diffusion-high": 300}
RECIPES = {"fast": TrainSettings(), "published": PUBLISHED}


@dataclass(frozen=True)
class RunSettings:
    """What is trained, and how.

    model_settings   of the network, where they differ from its published size
    chosen           names of what was set explicitly: "model", "train.epochs"; the rest is from the recipe, or default
    """

    problem: str
    model: "Model"
    recipe: str
    train: TrainSettings
    model_settings: dict[str, Any]
    chosen: frozenset[str] = frozenset()


def choose_settings(
    problem: str,
    *,
    model: "Model | None" = None,
    recipe: str | None = None,
    config: str | Path | None = None,
    model_settings: Mapping[str, Any] | None = None,
    overrides: Iterable[str] = (),
) -> RunSettings:
    """Combine the settings of a run: a recipe, changed by a file, then by arguments, then by overrides."""
    file = {} if config is None else read_config(as_path("config", config))
    if file.get("problem", problem) != problem:
        raise DisolError(
            f"{config} is for the problem {shown(file['problem'])}, not {problem!r}. "
            f"Pass that problem, or a config for {problem}."
        )
    if not isinstance(model_settings or {}, Mapping):
        raise DisolError(f"model_settings must be settings by name, got {shown(model_settings)}.")
    network = dict(file.get("model", {}))
    named = network.pop("name", None)
    model = named if model is None else model
    sections = {"train": dict(file.get("train", {})), "model": network | dict(model_settings or {})}
    for override in [overrides] if isinstance(overrides, str) else overrides:
        section, name, value = read_override(override)
        sections[section][name] = value
    recipe = recipe or file.get("recipe", "fast")
    train = find_recipe(recipe, problem).changed(sections["train"])
    chosen = frozenset([*(f"train.{name}" for name in sections["train"]), *([] if model is None else ["model"])])
    return RunSettings(problem, "disol" if model is None else model, recipe, train, sections["model"], chosen)


def find_recipe(name: str, problem: str) -> TrainSettings:
    """Return a recipe by its name, with the number of epochs published for a problem."""
    settings = find("recipe", name, RECIPES)
    return replace(settings, epochs=PUBLISHED_EPOCHS.get(problem, settings.epochs)) if name == "published" else settings


def read_config(path: Path) -> dict[str, Any]:
    """Read a file of settings: problem and recipe by name, the model by name and size, and changes to the recipe."""
    text = read_regular(path, MOST_BYTES)
    if max((line.count(b".") for line in text.splitlines()), default=0) > MOST_DOTS:
        raise DisolError(f"{path} has a line of more than {MOST_DOTS} dots. Write it in several lines.")
    try:
        content = tomllib.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise DisolError(f"{path} must be TOML, but: {listed([str(error)])}.") from None
    for name, value in content.items():
        if name not in _CONFIG_KEYS:
            raise DisolError(f"{path} has no setting {shown(name)}. It can have {', '.join(_CONFIG_KEYS)}.")
        if not isinstance(value, _CONFIG_KEYS[name]):
            kind = "a text" if _CONFIG_KEYS[name] is str else f"a section [{name}]"
            raise DisolError(f"{name} of {path} must be {kind}, got {shown(value)}.")
    return content


def read_override(override: str) -> tuple[str, str, Any]:
    """Take "section.name=value" apart, and read the value."""
    key, equals, text = override.partition("=") if isinstance(override, str) else ("", "", "")
    section, dot, name = key.strip().partition(".")
    if not (equals and dot and section in ("train", "model")):
        raise DisolError(
            f"Settings are changed by train.name=value or model.name=value, got {shown(override)}. "
            "Write, for example, train.epochs=100."
        )
    return section, name.strip(), read_value(text)


def read_value(text: str) -> Any:
    """Read the value of a setting: true or false, a number, a list in brackets, or else a string."""
    for read in (int, float, json.loads):
        try:
            return read(_JSON_WORDS.get(text.strip().lower(), text))
        except (ValueError, RecursionError):
            continue
    return text.strip()
