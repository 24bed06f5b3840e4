"""Learning rates follow progress, or the validation loss; progress follows epochs, or the clock."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from disol.errors import DisolError
from disol.training.clock import FINISHING, Clock
from disol.training.config import RECIPES, TrainSettings
from disol.training.optimisers import Decay, Plateau, Schedule, build_optimizer, make_schedule


def optimizer_at(rate: float) -> torch.optim.Optimizer:
    return torch.optim.Adam([torch.zeros(1, requires_grad=True)], lr=rate)


def rate_at(schedule: Schedule, optimizer: torch.optim.Optimizer, progress: float) -> float:
    schedule.before_step(progress)
    return optimizer.param_groups[0]["lr"]


@pytest.mark.parametrize("weights", [[], [torch.zeros(1)]])
def test_a_network_without_weights_to_train_is_refused(weights: list[torch.Tensor]) -> None:
    with pytest.raises(DisolError, match="none that require gradients"):
        build_optimizer(weights, TrainSettings())


@given(st.lists(st.floats(0.1, 10.0), max_size=80), st.integers(0, 4))
def test_a_plateau_is_that_of_torch(losses: list[float], patience: int) -> None:
    moved, optimizer = optimizer_at(1.0), optimizer_at(1.0)
    ours = Plateau(moved, factor=0.5, patience=patience)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=patience, eps=0.0)
    for loss in losses:
        ours.after_epoch(loss)
        theirs.step(loss)
        assert rate_at(ours, moved, 0.0) == optimizer.param_groups[0]["lr"]


def test_the_published_rate_halves_after_eleven_epochs_without_a_gain() -> None:
    optimizer = optimizer_at(RECIPES["published"].learning_rate)
    schedule = make_schedule(RECIPES["published"], optimizer)
    rates = []
    for _ in range(24):
        schedule.after_epoch(1.0)
        rates.append(rate_at(schedule, optimizer, 0.5))
    assert rates == [1e-4] * 11 + [0.5e-4] * 11 + [0.25e-4] * 2


def test_a_restored_plateau_goes_on_waiting() -> None:
    optimizers = [optimizer_at(1.0), optimizer_at(1.0)]
    first, second = (Plateau(optimizer, 0.5, 2) for optimizer in optimizers)
    for loss in (1.0, 1.0, 1.0):
        first.after_epoch(loss)
    second.load_state_dict(first.state_dict())
    assert second.state_dict() == first.state_dict()
    second.after_epoch(1.0)
    assert rate_at(second, optimizers[1], 0.0) == 0.5
    assert rate_at(first, optimizers[0], 0.0) == 1.0


@pytest.mark.parametrize("shape", ["cosine", "linear"])
def test_a_curve_rises_to_its_peak_and_falls_to_its_end(shape: str) -> None:
    optimizer = optimizer_at(0.0)
    curve = Decay(optimizer, 1.0, shape, warmup=0.1, last=0.01)
    shares = [rate_at(curve, optimizer, number / 1000) for number in range(1001)]
    assert shares[0] == 0.0
    assert shares[100] == max(shares) == 1.0
    assert shares[:101] == sorted(shares[:101])
    assert shares[100:] == sorted(shares[100:], reverse=True)
    assert math.isclose(shares[-1], 0.01)
    assert math.isclose(rate_at(curve, optimizer, 0.55), 0.505)


def test_a_constant_rate_stays() -> None:
    optimizer = optimizer_at(1.0)
    schedule = make_schedule(TrainSettings(schedule="constant", warmup=0.0, learning_rate=2.0), optimizer)
    assert {rate_at(schedule, optimizer, at / 9) for at in range(10)} == {2.0}


def test_progress_over_epochs_is_even() -> None:
    clock = Clock(epochs=4, num_batches=5)
    moments = [pace.progress(step) for pace in map(clock.pace, range(4)) for step in range(pace.batches)]
    assert moments == pytest.approx([number / 20 for number in range(20)])
    assert [clock.pace(epoch).is_last for epoch in range(4)] == [False, False, False, True]


@given(step=st.floats(0.01, 3.0), closing=st.floats(0.0, 5.0), minutes=st.floats(0.5, 10.0), batches=st.integers(1, 50))
def test_a_run_with_a_limit_ends_before_it_at_progress_one(
    step: float, closing: float, minutes: float, batches: int
) -> None:
    now = [0.0]
    clock = Clock(
        10, batches, 60 * minutes, step_seconds=step, closing_seconds=closing, started=0.0, read=lambda: now[0]
    )
    now[0] = 7.0  # of preparation
    clock.ready()
    now[0] += 1e-3
    progress, is_last = -1.0, False
    while not is_last:
        pace = clock.pace(0)
        assert progress - 1e-9 <= pace.start <= 1.0
        progress, is_last = pace.progress(pace.batches), pace.is_last
        now[0] += pace.batches * step + closing
        clock.observe(pace.batches, pace.batches * step, closing)
    assert progress == pytest.approx(1.0)
    assert now[0] <= 60 * minutes - FINISHING + step + 1e-6
    assert now[0] >= 60 * minutes - FINISHING - 2 * step - 2 * closing - 1e-6
