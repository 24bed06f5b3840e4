"""What every test may use."""

import os
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, settings

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when kernels are defined, hence before any test imports them

settings.register_profile(
    "disol",
    deadline=None,
    derandomize=True,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("disol")


@pytest.fixture
def released_data() -> Path:
    """The folder with data released by the paper's authors, if this machine has it."""
    default = Path(__file__).parents[2] / "shared" / "reference"
    folder = Path(os.environ.get("DISOL_RELEASED_DATA", default))
    if not folder.is_dir():
        pytest.skip("the authors' released data are not here; set DISOL_RELEASED_DATA to their folder")
    return folder
