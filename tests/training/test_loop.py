"""One step of training does what it says, in any precision."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from disol.data import CaseDataset
from disol.models import MODELS, create_model
from disol.problems.conventions import PAPER
from disol.problems.table import find_problem
from disol.training.augmentation import IDENTITY, Symmetries
from disol.training.batches import plan_epoch, validation_batches
from disol.training.config import RECIPES, TrainSettings
from disol.training.distributed import Processes, join_processes
from disol.training.loop import Training, affordable_trials, clip_gradients, compile_mode_on, precision_on
from disol.training.optimisers import EMA

SMALL = {"width": 4, "depth": 2, "gated_skips": 1}


def training_of(**settings) -> Training:
    torch.manual_seed(0)
    return Training(join_processes("cpu"), create_model("disol", "poisson", **SMALL), TrainSettings(**settings))


def still(cases) -> Symmetries:
    """Leave cases as they are."""
    return Symmetries.of(find_problem(cases.settings.problem), PAPER, cases.settings.resolution, "cpu", [IDENTITY])


@pytest.fixture
def batch(file_of: Callable[..., Path]) -> dict[str, torch.Tensor]:
    return CaseDataset(file_of("poisson"), "train").to_device("cpu").batch(torch.arange(8))


def test_low_precision_rounds_neither_targets_nor_losses(batch: dict[str, torch.Tensor]) -> None:
    training, domain = training_of(precision="bfloat16", loss="grid-l1"), batch["domain"].float()
    with torch.no_grad():
        exact, rounded = (training_of(precision=name, loss="grid-l1").losses(batch) for name in ("float32", "bfloat16"))
        with torch.autocast("cpu", torch.bfloat16):
            predicted = training.network(batch["inputs"]).float()
        # Away from the prediction at every pixel, by less than bfloat16 tells apart.
        farther = batch["target"] + 1e-5 * (batch["target"] - predicted).sign() * domain
        change = training.losses({**batch, "target": farther}) - rounded
    assert not torch.equal(exact, rounded)
    torch.testing.assert_close(exact, rounded, rtol=2e-2, atol=2e-3)
    torch.testing.assert_close(change, 1e-5 * domain.mean((1, 2, 3)), rtol=0.1, atol=0)


def test_a_published_step_is_one_of_plain_adam(batch: dict[str, torch.Tensor]) -> None:
    torch.manual_seed(0)
    network = create_model("disol", "poisson", **SMALL)
    adam = torch.optim.Adam(network.parameters(), lr=1e-4, weight_decay=1e-5)
    training = training_of(**RECIPES["published"].as_dict())
    for _ in range(3):
        training.step(batch, 0.5)
        (network(batch["inputs"]) - batch["target"]).abs().mean().backward()
        adam.step()
        adam.zero_grad()
    for ours, theirs, kept in zip(
        training.network.parameters(), network.parameters(), training.averaged.parameters(), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-6)
        assert torch.equal(ours, kept)


def test_the_moving_average_forgets_where_it_started() -> None:
    network = nn.Linear(1, 1, bias=False)
    network.weight.data.fill_(5.0)
    ema = EMA(network, 0.999)
    network.weight.data.fill_(1.0)
    ema.update_parameters(network)
    assert float(ema.module.weight) == pytest.approx(1.0 + 4.0 * 2 / 11)
    for _ in range(198):
        ema.update_parameters(network)
    assert float(ema.module.weight) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize(("decay", "kept"), [(0.999, 0.999), (0.0, 0.0)])
def test_the_moving_average_has_its_decay_in_the_end(decay: float, kept: float) -> None:
    network = nn.Linear(1, 1, bias=False)
    network.weight.data.fill_(0.0)
    ema = EMA(network, decay)
    ema.n_averaged.fill_(10**6)
    network.weight.data.fill_(1.0)
    ema.update_parameters(network)
    assert float(ema.module.weight) == pytest.approx(1 - kept)


def test_gradients_are_shortened_only_if_asked() -> None:
    for largest, expected in ((0.0, 10.0), (1.0, 1.0), (20.0, 10.0)):
        weight = nn.Parameter(torch.zeros(2))
        weight.grad = torch.tensor([6.0, 8.0])
        assert float(clip_gradients([weight], largest)) == 10.0
        assert float(weight.grad.norm()) == pytest.approx(expected, rel=1e-5)


def test_an_epoch_is_a_function_of_seed_and_number(file_of: Callable[..., Path]) -> None:
    cases = CaseDataset(file_of("heat"), "train").to_device("cpu")
    seeds = ((1, 2), (1, 2), (2, 1))
    plans = [plan_epoch(cases, still(cases), seed=seed, epoch=epoch, batch_size=5) for seed, epoch in seeds]
    assert torch.equal(plans[0].indices, plans[1].indices)
    assert torch.equal(plans[0].frames, plans[1].frames)
    assert not torch.equal(plans[0].indices, plans[2].indices)
    assert plans[0].indices.shape == (6, 5)
    assert len(plans[0].indices.unique()) == 30


@pytest.mark.parametrize("fewer", [0, 1])
@pytest.mark.parametrize("processes", [1, 2])
def test_validation_counts_each_case_once(file_of: Callable[..., Path], processes: int, fewer: int) -> None:
    dataset = CaseDataset(file_of("heat"), "validation")
    cases = dataset.to_device("cpu", first=len(dataset) - fewer)
    seen = []
    for rank in range(processes):
        for batch, counts in validation_batches(cases, 6, Processes(torch.device("cpu"), rank, processes).own):
            assert len(counts) == 6 // processes
            seen += batch["index"][counts].tolist()
    assert sorted(seen) == sorted(cases.arrays["index"].tolist())


def test_a_network_is_validated_by_the_mean_over_cases(file_of: Callable[..., Path]) -> None:
    cases = CaseDataset(file_of("poisson"), "validation").to_device("cpu", first=7)
    training = training_of()
    batch = cases.batch(torch.arange(len(cases)))
    losses = (training.averaged(batch["inputs"]) - batch["target"]).abs().mean((1, 2, 3))
    assert training.validate(cases, 2) == pytest.approx(losses.mean().item(), rel=1e-5)


def test_compiled_bfloat16_on_a_cpu_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must not be compiled on a CPU.* Use train.compile=off"):
        training_of(precision="bfloat16", compile="on")


def test_every_process_tries_as_many_steps_as_the_first_one_says(
    batch: dict[str, torch.Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    training, tried = training_of(), []
    monkeypatch.setattr("disol.training.loop.TRIAL_STEPS", 2)  # what this process would choose
    monkeypatch.setattr(Processes, "broadcast", lambda processes, own: 4)
    monkeypatch.setattr(training, "try_step", tried.append)
    assert training.try_steps(batch, lambda: 0.0) == 0
    assert len(tried) == 4 + 1  # the first one compiles


@pytest.mark.parametrize(("seconds", "steps"), [(0.0, 5), (1e-3, 5), (0.3, 3), (0.9, 1), (60.0, 1)])
def test_steps_are_tried_for_about_a_second(seconds: float, steps: int) -> None:
    assert affordable_trials(seconds) == steps


@pytest.mark.parametrize(("native", "expected"), [(True, torch.bfloat16), (False, torch.float32)])
def test_bfloat16_is_chosen_only_where_a_gpu_computes_in_it(
    native: bool, expected: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda including_emulation=True: native or including_emulation)
    gpu = torch.device("cuda")
    assert precision_on(gpu, TrainSettings()) == expected
    assert precision_on(gpu, TrainSettings(precision="bfloat16")) == torch.bfloat16
    assert precision_on(torch.device("cpu"), TrainSettings()) == torch.float32


def test_a_network_declares_how_a_gpu_trains_it_and_settings_overrule_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda including_emulation=True: True)
    gpu = torch.device("cuda")
    found = {}
    for name in MODELS:
        with torch.device("meta"):
            network = create_model(name, "poisson")
        mode = compile_mode_on(Processes(gpu), TrainSettings(), network)
        found[name] = (mode, precision_on(gpu, TrainSettings(), network))
        forced = TrainSettings(compile="on", precision="bfloat16")
        assert compile_mode_on(Processes(gpu), forced, network) == "on"
        assert precision_on(gpu, forced, network) == torch.bfloat16
    captured = ("graphs", torch.bfloat16)
    assert found == {
        "disol": captured,
        "disol-amplitude": captured,
        "unet": captured,
        "fno": ("graphs", torch.float32),
        "deeponet": captured,
        "geo-fno": ("graphs", torch.float32),
        "gno": ("off", torch.bfloat16),
        "dimon": ("off", torch.float32),
    }


def test_every_epoch_of_the_published_recipe_has_all_cases(file_of: Callable[..., Path]) -> None:
    cases = CaseDataset(file_of("poisson"), "train").to_device("cpu")
    published, fast = (replace(RECIPES[name], batch_size=5) for name in ("published", "fast"))
    counts = [settings.count_batches(len(cases), 5) for settings in (published, fast)]
    assert counts == [7, 6]  # of 32 cases
    whole, short = (
        plan_epoch(cases, still(cases), seed=1, epoch=0, batch_size=5, num_batches=count).indices for count in counts
    )
    assert set(whole.flatten().tolist()) == set(range(32))
    assert torch.equal(whole[-1, 2:], whole[0, :3]), "the last batch is filled up with the first cases"
    assert torch.equal(whole[:6], short)
    assert published.count_batches(30, 5) == fast.count_batches(30, 5) == 6


def test_training_needs_no_frame_after_20_seconds(file_of: Callable[..., Path]) -> None:
    for split in ("train", "validation"):
        dataset = CaseDataset(file_of("heat"), split)
        whole, trained = dataset.to_device("cpu"), dataset.to_device("cpu", until=20.0)
        symmetries = still(whole)
        plans = [plan_epoch(cases, symmetries, seed=1, epoch=0, batch_size=8) for cases in (whole, trained)]
        seen, expected = (
            [
                *plan.batches(cases, symmetries),
                *(batch for batch, _ in validation_batches(cases, 8)),
            ]
            for plan, cases in zip(plans, (whole, trained), strict=True)
        )
        for ours, theirs in zip(seen, expected, strict=True):
            assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
