"""Small files of cases, made once, and runs that take a second."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from disol.data import generate
from disol.training import RunReport, train

SMALL = {"width": 4, "depth": 2, "gated_skips": 1}


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tiny tensors are quickest on one thread, and results are the same on every machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def file_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A file of 40 cases of a problem: 32 for training, 8 for validation."""
    made: dict[str, Path] = {}

    def make(problem: str, conventions: str = "paper") -> Path:
        name = f"{problem}-{conventions}"
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name) / "cases.h5"
            generate(problem, 40, made[name], resolution=16, conventions=conventions, workers=0, device="cpu")
        return made[name]

    return make


@pytest.fixture
def train_small(file_of: Callable[..., Path], tmp_path: Path) -> Callable[..., RunReport]:
    """Train a tiny network on a tiny file, in the folder `tmp_path / name`."""

    def run(name: str = "run", *changes: str, problem: str = "poisson", epochs: int = 4, **options) -> RunReport:
        options = {"model_settings": SMALL, "device": "cpu", **options}
        overrides = ["train.batch=8", f"train.epochs={epochs}", *changes]
        return train(problem, file_of(problem), tmp_path / name, overrides=overrides, **options)

    return run
