"""The table of models, and building one by name."""

from typing import NamedTuple

from disol.models.amplitude import DiSOLAmplitude
from disol.models.config import ModelConfig
from disol.models.disol import DiSOL, DiSOLConfig
from disol.models.network import Network
from disol.models.unet import UNet, UNetConfig
from disol.problems import Problem
from disol.problems.checks import Unchecked
from disol.problems.table import find, find_problem


class Architecture(NamedTuple):
    """The settings of a model, and the network they build."""

    config: type[ModelConfig]
    network: type[Network]


MODELS: dict[str, Architecture] = {
    "disol": Architecture(DiSOLConfig, DiSOL),
    "disol-amplitude": Architecture(DiSOLConfig, DiSOLAmplitude),
    "unet": Architecture(UNetConfig, UNet),
}


def list_models() -> tuple[str, ...]:
    """List the names of the models."""
    return tuple(MODELS)


def find_model(name: str | Unchecked) -> Architecture:
    """Return a model by its name."""
    return find("model", name, MODELS)


def create_model(name: str | Unchecked, problem: str | Problem | Unchecked, **settings: Unchecked) -> Network:
    """Build a model for a problem, at its published size but for the settings given.

    The weights are random: set them by `torch.manual_seed`.
    """
    equation = find_problem(problem)
    architecture = find_model(name)
    config = architecture.config.for_problem(equation.name).changed(settings)
    return architecture.network(config, equation.channels, equation.fields)


def name_of(model: Network) -> str:
    """Return the name under which a model is in the table."""
    for name, architecture in MODELS.items():
        if type(model) is architecture.network:
            return name
    raise ValueError(f"{type(model).__name__} is not in the table of models. Add it to MODELS in models/table.py.")


def count_parameters(model: Network) -> int:
    """Count the trainable numbers of a model; a complex one counts twice."""
    return sum(
        parameter.numel() * (2 if parameter.is_complex() else 1)
        for parameter in model.parameters()
        if parameter.requires_grad
    )
