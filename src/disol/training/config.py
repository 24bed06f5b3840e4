"""Settings of a training run: frozen dataclasses with one default per setting, read from TOML and overrides."""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, get_type_hints

from disol.models.config import check_setting
from disol.models.table import find_model
from disol.problems.checks import Unchecked, number
from disol.problems.table import find

Schedule = Literal["cosine", "linear", "constant", "plateau"]
PatternLoss = Literal["grid-l1", "relative-l1", "relative-l2", "relative-h1"]
Precision = Literal["auto", "float32", "bfloat16"]
CompileMode = Literal["auto", "off", "on", "graphs"]
CONFIG_KEYS = {"problem": str, "recipe": str, "model": dict, "train": dict}
MAY_BE_ZERO = {"plateau_patience", "validation_cases"}  # among whole numbers
SHARES = {"warmup", "plateau_factor", "averaging"}  # settings below 1
WHOLE_SHARES = {"final_rate"}  # settings up to 1


@dataclass(frozen=True)
class TrainSettings:
    """How a network is trained; the defaults are the recipe "fast".

    epochs             passes over the training cases, unless the run has a time limit
    batch              cases per step, over all devices
    optimizer          "adam" adds the weight decay to the gradient, "adamw" shrinks the weights, "muon" shrinks them,
                       too, and learns every direction of a matrix equally fast
    learning_rate      at its peak
    weight_decay       of that optimizer
    schedule           "cosine" or "linear" fall to the final rate at the end of the run; "plateau" waits for a
                       validation loss that no longer falls
    warmup             share of the run in which the rate rises linearly
    final_rate         share of the peak that is left at the end
    plateau_factor     of the rate, once the validation loss has not fallen
    plateau_patience   for more than this many epochs
    loss               of a network that predicts patterns; amplitudes always have the squared error of their logarithm
    symmetry           turn and mirror every case by a random symmetry of its problem
    translation        move every case to a random place on the grid
    averaging          decay of the exponential moving average of the weights, which is validated and kept; 0: none
    gradient_clip      largest norm of a gradient; 0: no limit
    validation_cases   to validate each epoch on, the first of the file's; 0: all
    precision          of the forward pass; "auto": bfloat16 on a GPU that computes in it (NVIDIA's from Ampere on),
                       float32 elsewhere. Validation is in float32.
    compile            "on", "graphs" (with CUDA graphs, on one GPU) or "off"; "auto": the fastest that a device has
    """

    epochs: int = 100
    batch: int = 256
    optimizer: Literal["adam", "adamw", "muon"] = "muon"
    learning_rate: float = 3e-3
    weight_decay: float = 1e-4
    schedule: Schedule = "cosine"
    warmup: float = 0.05
    final_rate: float = 0.0
    plateau_factor: float = 0.5
    plateau_patience: int = 10
    loss: PatternLoss = "relative-h1"
    symmetry: bool = True
    translation: bool = False
    averaging: float = 0.999
    gradient_clip: float = 1.0
    validation_cases: int = 2048
    precision: Precision = "auto"
    compile: CompileMode = "auto"

    def __post_init__(self) -> None:
        for name, kind in kinds_of(TrainSettings).items():
            checked(name, getattr(self, name), kind)

    def changed(self, settings: Mapping[str, Unchecked]) -> "TrainSettings":
        """Return these settings with some replaced; an unknown one is an error."""
        kinds = kinds_of(TrainSettings)
        for name in settings:
            if name not in kinds:
                raise ValueError(f"train has no setting {name!r}. Its settings are {', '.join(kinds)}.")
        return replace(self, **{name: checked(name, value, kinds[name]) for name, value in settings.items()})

    def as_dict(self) -> dict[str, Any]:
        """Return the settings by name, as a checkpoint stores them."""
        return asdict(self)


def kinds_of(settings: type) -> dict[str, Any]:
    """Return the declared kind of each setting of a dataclass."""
    hints = get_type_hints(settings)
    return {field.name: hints[field.name] for field in fields(settings)}


def checked(name: str, value: Unchecked, kind: Any) -> Any:
    """Require that a training setting is of its kind and in its range."""
    if kind is not float:
        check_setting(name, value, kind, smallest=0 if name in MAY_BE_ZERO else 1)
        return value
    size = number(name, value)
    if size < 0 or (name in SHARES and size >= 1) or (name in WHOLE_SHARES and size > 1):
        limits = "from 0 on" + (" and below 1" if name in SHARES else " and at most 1" if name in WHOLE_SHARES else "")
        raise ValueError(f"{name} must be {limits}, got {value!r}. Pass such a number.")
    return size


PUBLISHED = TrainSettings(
    epochs=500,
    batch=200,
    optimizer="adam",
    learning_rate=1e-4,
    weight_decay=1e-5,
    schedule="plateau",
    warmup=0.0,
    loss="grid-l1",
    symmetry=False,
    translation=False,
    averaging=0.0,
    gradient_clip=0.0,
    validation_cases=0,
    precision="float32",
)
PUBLISHED_EPOCHS = {"advection-diffusion-low": 300, "advection-diffusion-high": 300}
RECIPES = {"fast": TrainSettings(), "published": PUBLISHED}


@dataclass(frozen=True)
class RunSettings:
    """What is trained, and how.

    model_settings   of the network, where they differ from its published size
    """

    problem: str
    model: str
    recipe: str
    train: TrainSettings
    model_settings: dict[str, Any]


def choose_settings(
    problem: str,
    *,
    model: str | Unchecked | None = None,
    recipe: str | Unchecked | None = None,
    config: str | Path | None = None,
    model_settings: Mapping[str, Unchecked] | None = None,
    overrides: Iterable[str] = (),
) -> RunSettings:
    """Put the settings of a run together: a recipe, changed by a file, changed by arguments, changed by overrides."""
    file = {} if config is None else read_config(Path(config))
    if file.get("problem", problem) != problem:
        raise ValueError(
            f"{config} is for the problem {file['problem']!r}, not {problem!r}. "
            f"Pass the problem {file['problem']}, or a config for {problem}."
        )
    network = dict(file.get("model", {}))
    named = network.pop("name", "disol")
    model, recipe = model or named, recipe or file.get("recipe", "fast")
    kinds = {"train": kinds_of(TrainSettings), "model": kinds_of(find_model(model).config)}
    sections = {"train": dict(file.get("train", {})), "model": {**network, **(model_settings or {})}}
    for override in overrides:
        section, name, text = split_override(override, kinds)
        sections[section][name] = parse(f"{section}.{name}", text, kinds[section][name])
    train = recipe_for(recipe, problem).changed(sections["train"])
    return RunSettings(problem, model, recipe, train, sections["model"])


def recipe_for(name: str | Unchecked, problem: str) -> TrainSettings:
    """Return a recipe by its name, with the number of epochs published for a problem."""
    settings = find("recipe", name, RECIPES)
    return replace(settings, epochs=PUBLISHED_EPOCHS.get(problem, settings.epochs)) if name == "published" else settings


def read_config(path: Path) -> dict[str, Any]:
    """Read a file of settings: problem and recipe by name, the model by name and size, and changes of the recipe."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"Cannot read {path}: {error.strerror}. Pass a TOML file of settings.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} must be TOML, but: {error}. Correct it.") from None
    for name, value in content.items():
        if name not in CONFIG_KEYS:
            raise ValueError(f"{path} has no setting {name!r}. It can have {', '.join(CONFIG_KEYS)}.")
        if not isinstance(value, CONFIG_KEYS[name]):
            kind = "a text" if CONFIG_KEYS[name] is str else f"a section [{name}]"
            raise ValueError(f"{name} of {path} must be {kind}, got {value!r}. Correct it.")
    return content


def split_override(override: str, kinds: Mapping[str, Mapping[str, Any]]) -> tuple[str, str, str]:
    """Take "section.name=value" apart."""
    key, equals, text = override.partition("=")
    section, dot, name = key.strip().partition(".")
    if not (equals and dot and section in kinds):
        raise ValueError(
            f"A setting is changed by {' or '.join(f'{known}.name=value' for known in kinds)}, got {override!r}. "
            "Write it so, as in train.epochs=100."
        )
    if name not in kinds[section]:
        raise ValueError(f"{section} has no setting {name!r}. Its settings are {', '.join(kinds[section])}.")
    return section, name, text.strip()


def parse(name: str, text: str, kind: Any) -> bool | int | float | str:
    """Read the value of a setting from a text, as its kind says."""
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            wanted = "a whole number" if kind is int else "a number"
            raise ValueError(f"{name} must be {wanted}, got {text!r}. Pass one.") from None
    return text
