"""Learning rates follow progress, or the validation loss; progress follows epochs, or the clock."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from disol.training.clock import FINISHING, Clock
from disol.training.config import RECIPES, TrainSettings
from disol.training.schedule import Curve, Plateau, schedule_of


@given(st.lists(st.floats(0.1, 10.0), max_size=80), st.integers(0, 4))
def test_a_plateau_is_that_of_torch(losses: list[float], patience: int) -> None:
    ours = Plateau(factor=0.5, patience=patience)
    optimizer = torch.optim.Adam([torch.zeros(1, requires_grad=True)], lr=1.0)
    theirs = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=patience, eps=0.0)
    for loss in losses:
        ours.observe(loss)
        theirs.step(loss)
        assert ours.share(0.0) == optimizer.param_groups[0]["lr"]


def test_the_published_rate_halves_after_eleven_epochs_without_a_gain() -> None:
    schedule = schedule_of(RECIPES["published"])
    shares = []
    for _ in range(24):
        schedule.observe(1.0)
        shares.append(schedule.share(0.5))
    assert shares == [1.0] * 11 + [0.5] * 11 + [0.25] * 2


def test_a_restored_plateau_goes_on_waiting() -> None:
    first, second = Plateau(0.5, 2), Plateau(0.5, 2)
    for loss in (1.0, 1.0, 1.0):
        first.observe(loss)
    second.restore(first.state())
    assert second == first


@pytest.mark.parametrize("shape", ["cosine", "linear"])
def test_a_curve_rises_to_its_peak_and_falls_to_its_end(shape: str) -> None:
    curve = Curve(shape, warmup=0.1, final=0.01)
    shares = [curve.share(number / 1000) for number in range(1001)]
    assert shares[0] == 0.0
    assert shares[100] == max(shares) == 1.0
    assert shares[:101] == sorted(shares[:101])
    assert shares[100:] == sorted(shares[100:], reverse=True)
    assert math.isclose(shares[-1], 0.01)
    assert math.isclose(curve.share(0.55), 0.505)


def test_a_constant_rate_stays() -> None:
    assert {schedule_of(TrainSettings(schedule="constant", warmup=0.0)).share(at / 9) for at in range(10)} == {1.0}


def test_progress_over_epochs_is_even() -> None:
    clock = Clock(epochs=4, num_batches=5)
    moments = [pace.progress(step) for pace in map(clock.pace, range(4)) for step in range(pace.batches)]
    assert moments == pytest.approx([number / 20 for number in range(20)])
    assert [clock.pace(epoch).is_last for epoch in range(4)] == [False, False, False, True]


def test_the_time_that_is_left_is_that_of_the_epochs_that_are_left() -> None:
    clock = Clock(epochs=4, num_batches=5)
    clock.observe(batches=5, step_seconds=10.0, closing_seconds=2.0)
    assert [clock.estimate_left(epoch) for epoch in range(1, 5)] == pytest.approx([36.0, 24.0, 12.0, 0.0])


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
