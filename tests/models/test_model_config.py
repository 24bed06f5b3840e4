"""Settings of a network of one's own may be of any plain kind, and a wrong one is an error that helps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import pytest

from disol.models import PUBLISHED_CONFIGS, ModelConfig


@dataclass(frozen=True)
class OwnConfig(ModelConfig):
    """One setting of each kind."""

    smallest: ClassVar[Mapping[str, int | float]] = {"dropout": 0, "sweeps": 0}

    width: int = 4
    sweeps: int = 0
    dropout: float = 0.1
    slope: float = -0.5
    name: str = "own"
    gated: bool = True
    kind: Literal["thin", "thick"] = "thin"
    widths: tuple[int, ...] = (4, 8)
    sizes: tuple[float, ...] = ()

    @classmethod
    def for_problem(cls, problem: str) -> "OwnConfig":
        """Return the same for all."""
        del problem
        return cls()


def test_settings_of_every_kind_can_be_changed() -> None:
    plain = {"width": 1, "sweeps": 2, "dropout": 0.25, "slope": -3, "name": "", "gated": False, "kind": "thick"}
    changes = plain | {"widths": (1, 2, 3), "sizes": (0.5,)}
    assert OwnConfig().changed(changes).as_dict() == changes


def test_a_list_of_numbers_is_a_tuple_as_after_being_stored() -> None:
    assert OwnConfig().changed({"widths": [4, 8]}) == OwnConfig(widths=[4, 8]) == OwnConfig()


def test_published_settings_are_told_by_what_they_change() -> None:
    assert repr(PUBLISHED_CONFIGS["advection-diffusion"]) == "DiSOLConfig(width=16)"


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("width", 0, "width must be a whole number from 1 on, got 0"),
        ("sweeps", -1, "sweeps must be a whole number from 0 on, got -1"),
        ("dropout", -0.1, r"dropout must be a finite number from 0 on, got -0\.1"),
        ("slope", True, "slope must be a finite number, got True"),
        ("slope", "1", "slope must be a finite number, got '1'"),
        ("slope", float("nan"), "slope must be a finite number, got nan"),
        ("name", 1, "name must be a text, got 1"),
        ("widths", 4, "widths must be several numbers, got 4"),
        ("widths", (4, 0), r"widths\[1\] must be a whole number from 1 on, got 0"),
        ("sizes", [1, "2"], r"sizes\[1\] must be a finite number, got '2'"),
    ],
)
def test_a_setting_of_another_kind_is_refused(setting: str, value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OwnConfig().changed({setting: value})
