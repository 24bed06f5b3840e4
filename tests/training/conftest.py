"""Small files of cases, made once, runs that take a second, and a clock that no machine is too slow for."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from disol.data import generate
from disol.training import RunReport, train
from disol.training.loop import Training

SMALL = {"width": 4, "depth": 2, "gated_skips": 1}


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Tiny tensors are quickest on one thread, and results are the same on every machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as monkeypatch:
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
        overrides = ["train.batch_size=8", f"train.epochs={epochs}", *changes]
        return train(problem, file_of(problem), tmp_path / name, overrides=overrides, **options)

    return run


class FakeClock:
    """Tells how long a run has taken on a machine where each step takes 50 ms and each validation 100 ms."""

    step = 0.05
    validation = 0.1

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def fake_clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """Let runs read a clock that only their own work moves."""
    clock = FakeClock()

    def taking(seconds: float, work: Callable) -> Callable:
        def timed(*arguments):
            clock.seconds += seconds
            return work(*arguments)

        return timed

    for name, seconds in (("step", clock.step), ("try_step", clock.step), ("validate", clock.validation)):
        monkeypatch.setattr(Training, name, taking(seconds, getattr(Training, name)))
    monkeypatch.setattr("disol.training.run._read_time", clock)
    return clock
