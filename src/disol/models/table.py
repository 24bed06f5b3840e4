"""The table of models, and how to build one, or a network of your own. Torch is imported only when it is needed.

A network of your own is an `nn.Module` class, called as `MyNetwork(num_channels, num_fields, **settings)`, an object
of one, or the text "package.module:Name" of either. Such a text is imported when a user passes it, never because a file
contains it.
"""

import inspect
import sys
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from disol._lazy import import_own, names_own
from disol.errors import DisolError, shown
from disol.models.settings import (
    LARGEST,
    DeepONetConfig,
    DIMONConfig,
    DiSOLConfig,
    FNOConfig,
    GeoFNOConfig,
    GNOConfig,
    ModelConfig,
    UNetConfig,
)
from disol.problems.table import find, find_problem

if TYPE_CHECKING:
    import torch

    import disol.models.base
    from disol.problems import Problem


@dataclass(frozen=True, repr=False)
class Architecture:
    """The settings of a network, and the network they build: `network(config, problem)`.

    where   its class, or the text "package.module:Name" of it, which is imported when it is built
    """

    config: type[ModelConfig]
    where: "type[disol.models.base.Network] | str"

    @property
    def network(self) -> "type[disol.models.base.Network]":
        """The class of the network."""
        return import_own("model", self.where) if isinstance(self.where, str) else self.where

    def __repr__(self) -> str:
        where = self.where if isinstance(self.where, str) else _name_class(self.where)
        return f"Architecture({self.config.__name__}, {where})"


MODELS: dict[str, Architecture] = {
    "disol": Architecture(DiSOLConfig, "disol.models.disol:DiSOL"),
    "disol-amplitude": Architecture(DiSOLConfig, "disol.models.amplitude:DiSOLAmplitude"),
    "unet": Architecture(UNetConfig, "disol.models.unet:UNet"),
    "fno": Architecture(FNOConfig, "disol.models.fno:FNO"),
    "deeponet": Architecture(DeepONetConfig, "disol.models.deeponet:DeepONet"),
    "geo-fno": Architecture(GeoFNOConfig, "disol.models.geo_fno:GeoFNO"),
    "gno": Architecture(GNOConfig, "disol.models.gno:GNO"),
    "dimon": Architecture(DIMONConfig, "disol.models.dimon:DIMON"),
}
MOST_MISSED = 0.1  # share of a requested number of parameters by which a network may miss it


def list_models() -> tuple[str, ...]:
    """List the names of the models."""
    return tuple(MODELS)


def find_model(name: str) -> Architecture:
    """Return a model of the table by its name."""
    return find("model", name, MODELS)


def create_model(
    name: str, problem: "str | Problem", *, parameters: float | None = None, **settings: Any
) -> "disol.models.base.Network":
    """Build a model of the table for a problem, at its published size except for the settings given.

    parameters   about how many it should have; `find_settings` chooses the settings that determine the size

    The weights are random; they depend on `torch.manual_seed`.
    """
    equation = find_problem(problem)
    architecture = find_model(name)
    if parameters is None:
        config = architecture.config.for_problem(equation.name).changed(settings)
    else:
        config = find_settings(name, equation, parameters, **settings)
    return architecture.network(config, equation)


def find_settings(name: str, problem: "str | Problem", parameters: float, **settings: Any) -> ModelConfig:
    """Find settings that give a model a number of parameters, within 10 %; a complex weight counts once.

    The width is changed first and, where its steps are too coarse, the other settings that determine the size; settings
    that are given are kept.
    """
    equation, architecture = find_problem(problem), find_model(name)
    budget = import_module("disol._checks").positive_number("parameters", parameters)  # listing models needs no NumPy
    torch, network = import_module("torch"), architecture.network

    def size(config: ModelConfig) -> int:
        with torch.device("meta"):
            return count_parameters(network(config, equation))

    config = architecture.config.for_problem(equation.name).changed(settings)
    best = config
    for setting in [each for each in config.size_settings if each not in settings]:
        limits = range(1, config.largest.get(setting, LARGEST) + 1)
        too_large = bisect_right(limits, budget, key=lambda value: size(config.changed({setting: value})))
        below, above = limits[max(too_large - 1, 0)], limits[min(too_large, len(limits) - 1)]
        found = [config.changed({setting: value}) for value in (below, above)]
        best = min(best, *found, key=lambda each: abs(size(each) - budget))
        if abs(size(best) - budget) <= MOST_MISSED * budget:
            return best
        config = found[0]
    raise DisolError(
        f"{name} of {equation.name} comes closest to parameters={budget:,.0f} with {size(best):,}, by {best}. "
        "Ask for another number, or change other settings."
    )


def build_network(
    model: "str | type[torch.nn.Module] | torch.nn.Module",
    problem: "str | Problem",
    settings: Mapping[str, Any],
    seed: int,
    *,
    resolutions: Iterable[int] | None = None,
) -> "torch.nn.Module":
    """Build a model of the table, or a network of your own, for a problem; its weights depend on the seed alone.

    resolutions   pixels along a side of the grids that a network of your own is tried on, if any; the problem's own
                  unless given

    An object is copied and keeps its weights.
    """
    equation = find_problem(problem)
    check_model(model, equation, settings)
    found: Any = _find_own(model)
    torch = import_module("torch")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if isinstance(found, str):
            return create_model(found, equation, **settings)
        if isinstance(found, type):
            built = found(len(equation.channels), len(equation.fields), **_as_tuples(dict(settings)))
        else:
            built = deepcopy(found)
        for side in (equation.resolution,) if resolutions is None else resolutions:
            import_module("disol.models.base").require_fit(built, equation, side)
        return built


def check_model(
    model: "str | type[torch.nn.Module] | torch.nn.Module", problem: "str | Problem", settings: Mapping[str, Any]
) -> None:
    """Require that a model is known and takes the settings; one of the table is checked without importing torch."""
    equation, found = find_problem(problem), _find_own(model)
    if isinstance(found, str):
        find_model(found).config.for_problem(equation.name).changed(settings)
        return
    name = describe_model(found)
    if not isinstance(found, type):
        if settings:
            raise DisolError(
                f"{name} is an object, which takes no settings, got {', '.join(settings)}. Pass its class."
            )
        return
    if issubclass(found, import_module("disol.models.base").Network):
        raise DisolError(
            f"{name} is built from a ModelConfig. Add it to MODELS, pass an object of it, or derive it from nn.Module."
        )
    try:
        inspect.signature(found).bind(len(equation.channels), len(equation.fields), **settings)
    except TypeError as error:
        raise DisolError(f"{name} must be callable as Name(num_channels, num_fields, **settings): {error}.") from None


def describe_model(model: "str | type[torch.nn.Module] | torch.nn.Module") -> str:
    """Return the name of a model in the table; for a network of your own, "package.module:Name" of its class."""
    cls = model if isinstance(model, type) else type(model)
    text = model if isinstance(model, str) else _name_class(cls)
    return next((name for name, known in MODELS.items() if known.where in (cls, text)), text)


def count_parameters(network: "torch.nn.Module") -> int:
    """Count the trainable numbers of a network, a complex one once."""
    pairs = {
        id(getattr(module, name)) for module in network.modules() for name in getattr(module, "complex_weights", ())
    }
    trained = [weight for weight in network.parameters() if weight.requires_grad]
    return sum(weight.numel() // 2 if id(weight) in pairs else weight.numel() for weight in trained)


def count_real_numbers(network: "torch.nn.Module") -> int:
    """Count the trainable real numbers of a network, two for a complex one."""
    trained = [weight for weight in network.parameters() if weight.requires_grad]
    return sum(weight.numel() * (2 if weight.is_complex() else 1) for weight in trained)


def _find_own(model: Any) -> Any:
    """Return a network of your own as a class or an object; a model of the table by its name."""
    if isinstance(model, str):
        if not names_own(model):
            return model
        model = import_own("model", model)
    torch = sys.modules.get("torch")  # without it there are no networks
    cls: Any = model if isinstance(model, type) else type(model)
    if torch is None or not issubclass(cls, torch.nn.Module):
        raise DisolError(
            f"A model is one of {', '.join(MODELS)}, an nn.Module class or object, or 'package.module:Name' of one, "
            f"got {shown(model)}."
        )
    name = describe_model(cls)
    return name if isinstance(model, type) and name in MODELS else model


def _name_class(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _as_tuples(value: Any) -> Any:
    """Return settings with lists as tuples, so that a class gets the same values when built and when loaded."""
    if isinstance(value, Mapping):
        return {key: _as_tuples(item) for key, item in value.items()}
    return tuple(map(_as_tuples, value)) if isinstance(value, list | tuple) else value
