"""Runs learn, stop when asked, and say what is wrong."""

import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch

from disol.data import CaseDataset, write_cases
from disol.errors import DisolError
from disol.evaluation import evaluate
from disol.models import load_checkpoint
from disol.training import EpochRecord, RunReport, epochs, read_history, train
from disol.training import loop as loop_module
from disol.training.clock import FINISHING
from disol.training.loop import Training

Train = Callable[..., RunReport]


def test_the_loss_falls(train_small: Train, tmp_path: Path) -> None:
    report = train_small(epochs=25)
    records = read_history(tmp_path / "run")
    assert [record.epoch for record in records] == list(range(1, 26))
    assert records[-1].train_loss < 0.5 * records[0].train_loss
    assert report.validation_loss == min(record.validation_loss for record in records) < records[0].validation_loss / 2


@pytest.mark.parametrize(("problem", "epochs"), [("advection-diffusion-high", 12), ("elasticity", 40), ("heat", 12)])
def test_every_problem_trains(train_small: Train, tmp_path: Path, problem: str, epochs: int) -> None:
    train_small("run", problem=problem, epochs=epochs)
    losses = [record.train_loss for record in read_history(tmp_path / "run")]
    assert np.mean(losses[-3:]) < np.mean(losses[:3])  # random symmetries and frames make single epochs uneven


def test_the_amplitude_trains(train_small: Train, tmp_path: Path) -> None:
    report = train_small("run", "train.ema_decay=0", model="disol-amplitude", epochs=10)
    assert report.validation_loss < 0.5 * read_history(tmp_path / "run")[0].validation_loss
    assert load_checkpoint(tmp_path / "run").predicts == "log-amplitude"


def test_every_choice_can_be_switched(train_small: Train, tmp_path: Path) -> None:
    changes = {
        "train.augment_symmetry": "false",
        "train.ema_decay": "0",
        "train.grad_clip_norm": "0",
        "train.optimizer": "adam",
        "train.schedule": "linear",
        "train.loss": "relative-l2",
        "train.precision": "bfloat16",
    }
    train_small("default", epochs=2)
    for name, value in changes.items():
        train_small(name, f"{name}={value}", epochs=2)
    results = {name: read_history(tmp_path / name)[-1].validation_loss for name in ("default", *changes)}
    assert len(set(results.values())) == len(results)


def test_a_finished_run_leaves_a_checkpoint_with_the_loss_it_claims(
    train_small: Train, file_of: Callable[..., Path], tmp_path: Path
) -> None:
    report = train_small("run")
    names = {"config.json", "model.safetensors", "metrics.json", "history.jsonl", "losses.png"}
    assert {path.name for path in (tmp_path / "run").iterdir()} - {"tensorboard"} == names
    best = load_checkpoint(tmp_path / "run", "poisson")
    cases = CaseDataset(file_of("poisson"), "validation").to_device("cpu")
    batch = cases.batch(torch.arange(len(cases)))
    with torch.no_grad():
        grid_mae = (best.network(batch["inputs"]) - batch["target"]).abs().mean()
    assert float(grid_mae) == pytest.approx(report.validation_loss, rel=1e-5)
    assert best.metrics["validation_loss"] == report.validation_loss
    assert best.metrics["finished"]
    assert best.metrics["run"]["train.batch_size"] == 8
    assert (best.resolution, best.conventions.name) == (16, "paper")
    assert str(report).startswith(f"{tmp_path / 'run'}: validation loss")


def test_a_run_keeps_the_conventions_of_its_cases(file_of: Callable[..., Path], tmp_path: Path) -> None:
    small = {"width": 4, "depth": 2, "gated_skips": 1}
    settings = {"overrides": ["train.batch_size=8", "train.epochs=1"], "model_settings": small, "device": "cpu"}
    train("elasticity", file_of("elasticity", "published"), tmp_path / "run", **settings)
    kept = load_checkpoint(tmp_path / "run")
    assert (kept.conventions.name, kept.normalisation.name) == ("published", "component")


def test_the_seed_decides_the_first_weights_and_the_order_of_cases(
    train_small: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders, plan_epoch = {0: [], 5: []}, epochs.plan_epoch

    def record(*arguments, seed, **settings):
        plan = plan_epoch(*arguments, seed=seed, **settings)
        orders[seed].append(plan.indices.tolist())
        return plan

    monkeypatch.setattr(epochs, "plan_epoch", record)
    for seed in orders:
        train_small(str(seed), "train.learning_rate=0", seed=seed, epochs=1)
    assert orders[0] != orders[5]
    assert orders[5]
    first, other = (read_history(tmp_path / str(seed))[0].validation_loss for seed in orders)
    assert first != other


def test_cases_are_moved_if_asked(train_small: Train, tmp_path: Path) -> None:
    for name, translation in (("still", "false"), ("moved", "true")):
        train_small(name, f"train.augment_translation={translation}", epochs=1)
    still, moved = (read_history(tmp_path / name)[0].train_loss for name in ("still", "moved"))
    assert still != moved


def test_every_step_has_the_rate_of_its_middle(train_small: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    moments, step = [], Training.step

    def record(training, batch, progress):
        moments.append(progress)
        return step(training, batch, progress)

    monkeypatch.setattr(Training, "step", record)
    train_small("run", epochs=2)
    assert moments == pytest.approx([(number + 0.5) / 8 for number in range(8)])


def test_validation_of_heat_is_not_random(train_small: Train, tmp_path: Path) -> None:
    train_small("run", "train.learning_rate=0", problem="heat", epochs=3)
    records = read_history(tmp_path / "run")
    assert len({record.validation_loss for record in records}) == 1
    assert len({record.train_loss for record in records}) == 3


def test_a_run_can_begin_with_the_weights_of_another(train_small: Train, tmp_path: Path) -> None:
    first = train_small("first", epochs=20)
    further = train_small("further", start=tmp_path / "first", epochs=4)
    anew = train_small("anew", epochs=4)
    assert further.validation_loss < anew.validation_loss
    assert read_history(tmp_path / "further")[0].validation_loss < 1.5 * first.validation_loss
    with pytest.raises(ValueError, match="was begun with start="):
        train_small("further", start=tmp_path / "anew", epochs=4, resume=True)


def test_fine_tuning_brings_its_own_model_and_a_lower_rate(train_small: Train, tmp_path: Path) -> None:
    train_small("first", epochs=1)
    first = load_checkpoint(tmp_path / "first")
    handles = {
        "folder": tmp_path / "first",
        "text": str(tmp_path / "first"),
        "checkpoint": first,
        "network": first.network,
    }
    before = {name: weight.clone() for name, weight in first.network.state_dict().items()}
    reports = {name: train_small(name, start=start, model_settings=None, epochs=2) for name, start in handles.items()}
    for name, report in reports.items():
        assert [record.learning_rate for record in read_history(report.path)] == [
            record.learning_rate for record in read_history(reports["folder"].path)
        ]
        assert report.validation_loss == reports["folder"].validation_loss, name
        assert load_checkpoint(report.path).network.config == first.network.config
        (note,) = report.notes
        assert note.startswith("Fine-tuning at a learning rate of 0.0003, a tenth of the recipe's;")
    assert max(record.learning_rate for record in read_history(tmp_path / "folder")) <= 3e-4
    assert all(torch.equal(weight, before[name]) for name, weight in first.network.state_dict().items())
    chosen = train_small("chosen", "train.learning_rate=1e-3", start=first, epochs=2)
    assert max(record.learning_rate for record in read_history(chosen.path)) > 3e-4
    assert "learning rate" not in chosen.notes[0]


def test_weights_of_another_network_are_refused(train_small: Train, tmp_path: Path) -> None:
    train_small("first", epochs=1)
    with pytest.raises(ValueError, match=r"first brings its own .* model.width is 4, got 8\. Leave model\.width out\."):
        train_small("wider", start=tmp_path / "first", model_settings={"width": 8})
    with pytest.raises(ValueError, match=r"first is a network 'disol', not 'disol-amplitude'\. Leave model out\."):
        train_small("other", start=tmp_path / "first", model="disol-amplitude")
    with pytest.raises(ValueError, match=r"was trained on 'poisson', not 'heat'"):
        train_small("heat", problem="heat", start=tmp_path / "first")


def test_the_published_recipe_lowers_its_rate_on_a_plateau(train_small: Train, tmp_path: Path) -> None:
    # Steps this small change nothing.
    train_small("run", "train.plateau_patience=1", "train.learning_rate=1e-12", recipe="published", epochs=8)
    rates = [record.learning_rate for record in read_history(tmp_path / "run")]
    assert rates == [1e-12 * share for share in (1, 1, 1, 0.5, 0.5, 0.25, 0.25, 0.125)]


def test_a_run_with_a_time_limit_ends_in_time_with_its_rate_at_zero(
    train_small: Train, fake_clock, tmp_path: Path
) -> None:
    report = train_small("run", "train.learning_rate=1e-3", minutes=0.08)
    assert 4.8 - FINISHING - 0.2 < report.seconds == fake_clock.seconds < 4.8
    records = read_history(tmp_path / "run")
    assert report.epochs == len(records) > 3
    assert report.notes == ()
    assert max(record.learning_rate for record in records) > 0.5e-3
    assert records[-1].learning_rate < 0.02e-3


def test_a_run_whose_preparation_takes_all_its_time_says_so(train_small: Train) -> None:
    (message,) = train_small("short", minutes=1e-4).notes
    assert re.fullmatch(
        r"Loading and compiling took [\d.]+ s of the 0\.006 s asked for: .* Ask for more minutes\.", message
    )
    assert train_small("counted", epochs=1).notes == ()


def test_a_diverging_run_stops_and_keeps_what_was_good(
    train_small: Train, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip, steps, trials = loop_module.clip_gradients, [], 2

    def poison(weights, largest):
        steps.append(1)
        if len(steps) == trials + 10:  # in the third epoch
            weights[0].grad.fill_(torch.nan)
        return clip(weights, largest)

    monkeypatch.setattr(loop_module, "TRIAL_STEPS", trials - 1)
    monkeypatch.setattr(loop_module, "clip_gradients", poison)
    with pytest.raises(
        ValueError, match=r"loss must stay finite, but is nan in epoch 3. .* best model of epoch 2, and"
    ):
        train_small("run", epochs=5)
    assert load_checkpoint(tmp_path / "run").metrics["epoch"] == 2
    assert load_checkpoint(tmp_path / "run" / "last", state=True).state["epoch"] == 2
    assert len(read_history(tmp_path / "run")) == 2


def test_a_run_that_diverges_at_once_says_that_nothing_was_kept(train_small: Train) -> None:
    with pytest.raises(ValueError, match=r"in epoch 1. .* holds no model yet.* a lower train.learning_rate\.$"):
        train_small("run", "train.learning_rate=1e38", "train.warmup=0", "train.ema_decay=0")


def test_gradients_are_shortened_as_a_remedy_only_where_they_are_not(train_small: Train) -> None:
    changes = ("train.learning_rate=1e38", "train.warmup=0", "train.ema_decay=0", "train.grad_clip_norm=0")
    with pytest.raises(ValueError, match=r"a lower train.learning_rate, or with train.grad_clip_norm=1\.$"):
        train_small("run", *changes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"problem": "heat"}, r"holds cases of 'poisson', not of 'heat'. Train on the problem poisson"),
        (
            {"overrides": ["train.batch_size=33"]},
            r"has 32 training cases, fewer than one batch of 33. .*train.batch_size=32",
        ),
        ({"device": "tpu"}, r"Unknown device 'tpu'. Use auto, cpu, cuda or cuda:NUMBER"),
        ({"device": "cuda:99"}, r"'cuda:99' was asked for, but there are \d+ CUDA devices"),
        ({"minutes": 0}, r"minutes must be positive"),
        ({"seed": -1}, r"seed must not be negative"),
        ({"model_settings": {"size": 3}}, r"has no setting 'size'"),
        ({"overrides": ["model.hidden=3"]}, r"has no setting 'hidden'. Its settings are width, depth"),
        ({"model": "net"}, r"Unknown model 'net'. Use one of disol"),
        ({"recipe": "slow"}, r"Unknown recipe 'slow'. Use one of fast, published"),
        ({"start": "possion"}, r"Unknown model 'possion': neither a name nor a folder"),
    ],
)
def test_what_cannot_be_trained_is_explained_before_anything_is_written(
    file_of: Callable[..., Path], tmp_path: Path, options: dict, message: str
) -> None:
    problem = options.pop("problem", "poisson")
    with pytest.raises(ValueError, match=message):
        train(problem, file_of("poisson"), tmp_path / "run", **{"overrides": ["train.batch_size=8"], **options})
    assert not (tmp_path / "run").exists()


def test_arguments_are_checked_before_torch_is_imported(file_of: Callable[..., Path], tmp_path: Path) -> None:
    script = """
import sys
from disol.training import train
data = sys.argv[1]
mistakes = [
    ("possion", data, {}), ("poisson", "missing.h5", {}), ("heat", data, {}), ("poisson", data, {"recipe": "slow"}),
    ("poisson", data, {"config": "missing.toml"}), ("poisson", data, {"model": "net"}), ("poisson", data, {"seed": -1}),
    ("poisson", data, {"start": "possion"}), ("poisson", data, {"start": "heat"}), ("poisson", data, {"device": "tpu"}),
    ("poisson", data, {"overrides": ["train.batch_size=33"]}), ("poisson", data, {"overrides": ["model.size=3"]}),
    ("poisson", data, {"start": "poisson", "overrides": ["model.width=3", "train.batch_size=8"]}),
    ("poisson", data, {"overrides": ["train.batch_size=8"], "out": sys.argv[2]}),
]
for problem, file, options in mistakes:
    try:
        train(problem, file, options.pop("out", "run"), **options)
    except ValueError as error:
        print(error)
    else:
        raise AssertionError(options)
assert "torch" not in sys.modules
"""
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.tex").touch()
    command = [sys.executable, "-c", script, file_of("poisson"), tmp_path / "taken"]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    assert len(told) == 14
    assert not any("--" in line for line in told)


def test_other_numbers_in_the_equation_are_another_problem(file_of: Callable[..., Path], tmp_path: Path) -> None:
    from dataclasses import replace

    from disol import PROBLEMS

    with pytest.raises(ValueError, match=r"was generated with diffusion=1.0, but poisson has diffusion=0.5"):
        train(replace(PROBLEMS["poisson"], diffusion=0.5), file_of("poisson"), tmp_path / "run")


def test_an_epoch_is_reported_in_one_line() -> None:
    record = EpochRecord(3, 0.01, 0.02, 1e-3, 60.0, 12_345.6)
    assert str(record) == "epoch 3  train 1.000e-02  validation 2.000e-02  12,346 cases/s"
    assert repr(record) == f"EpochRecord({record})"


def test_a_run_loads_only_the_frames_it_reads(train_small: Train, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded, load = [], CaseDataset.to_device

    def record(dataset, *arguments, **settings):
        loaded.append(load(dataset, *arguments, **settings))
        return loaded[-1]

    monkeypatch.setattr(CaseDataset, "to_device", record)
    train_small("heat", problem="heat", epochs=1)
    train_small("steady", epochs=1)
    shapes = [tuple(cases.arrays["pattern"].shape) for cases in loaded]
    assert shapes == [(32, 10, 1, 16, 16), (8, 10, 1, 16, 16), (32, 1, 1, 16, 16), (8, 1, 1, 16, 16)]


@pytest.mark.parametrize(("asked", "taken"), [(0, 8), (3, 3), (1000, 8)])
def test_a_run_loads_and_validates_on_as_many_of_the_first_cases_as_asked(
    train_small: Train, file_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, asked: int, taken: int
) -> None:
    validated, validate = [], Training.validate

    def record(training, cases, batch):
        validated.append(cases.arrays["index"].tolist())
        return validate(training, cases, batch)

    monkeypatch.setattr(Training, "validate", record)
    train_small("run", f"train.validation_cases={asked}", epochs=1)
    own = CaseDataset(file_of("poisson"), "validation")
    assert validated == [own.store.read(own.positions, "index")["index"][:taken].tolist()]


@pytest.mark.parametrize("changes", [(), ("train.learning_rate=1e38", "train.warmup=0", "train.ema_decay=0")])
def test_matrices_are_multiplied_as_before_once_a_run_has_ended(
    train_small: Train, monkeypatch: pytest.MonkeyPatch, changes: tuple[str, ...]
) -> None:
    clip, within = loop_module.clip_gradients, set()

    def record(weights, largest):
        within.add(torch.get_float32_matmul_precision())
        return clip(weights, largest)

    monkeypatch.setattr(loop_module, "clip_gradients", record)
    before = torch.get_float32_matmul_precision()
    assert before == "highest"
    with pytest.raises(ValueError, match="must stay finite") if changes else nullcontext():
        train_small("run", *changes, epochs=1)
    assert within == {"high"}
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.skipif(not hasattr(torch.backends.mkldnn, "matmul"), reason="this torch has one precision for all")
def test_precisions_set_for_one_backend_alone_come_back() -> None:
    script = (
        "import torch\nfrom disol.training.loop import quick_matrix_products\n"
        "one, other = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul\n"
        "one.fp32_precision = 'tf32'\nbefore = one.fp32_precision, other.fp32_precision\n"
        "with quick_matrix_products():\n    assert torch.get_float32_matmul_precision() == 'high'\n"
        "assert (one.fp32_precision, other.fp32_precision) == before != ('tf32', 'tf32')\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def pierced_cases(count: int, every: int) -> list[dict[str, np.ndarray]]:
    """Squares, of which one in `every` has a hole."""
    cases = []
    for index in range(count):
        domain = np.zeros((16, 16), bool)
        domain[2:14, 2 : 10 + index % 4] = True
        domain[7:9, 5:7] = index % every != 0
        held = domain & (np.arange(16) == 2)
        cases.append({"domain": domain, "dirichlet": held, "source": np.full((16, 16), 0.1 + index / count)})
    return cases


def test_cases_that_a_network_cannot_predict_are_left_out_and_told(tmp_path: Path) -> None:
    write_cases("poisson", pierced_cases(40, every=4), tmp_path / "cases.h5")
    settings = {"width": 8, "points": 40, "components": 4, "basis": 8, "trunk_width": 8}
    small = ["train.batch_size=8", "train.epochs=1", "train.ema_decay=0"]
    options = {"model": "dimon", "model_settings": settings, "device": "cpu", "overrides": small}
    report = train("poisson", tmp_path / "cases.h5", tmp_path / "run", **options)
    assert "dimon can predict 24 of the 32 train cases" in report.notes[0]
    assert "dimon can predict 6 of the 8 validation cases" in report.notes[1]
    assert load_checkpoint(tmp_path / "run").metrics["training_cases"] == 24
    found = evaluate(tmp_path / "run", tmp_path / "cases.h5", device="cpu", split="train", progress=False)
    assert len(found.files[0]) == 24
    assert any(note.startswith("8 cases of") and "cannot be predicted by this model" in note for note in found.notes)
    write_cases("poisson", pierced_cases(40, every=1), tmp_path / "holes.h5")
    with pytest.raises(DisolError, match=r"dimon can predict 0 of the 32 train cases .* at least 8 are needed"):
        train("poisson", tmp_path / "holes.h5", tmp_path / "none", **options)
    with pytest.raises(DisolError, match="no case to evaluate among the 8 asked for: dimon can predict none"):
        evaluate(tmp_path / "run", tmp_path / "holes.h5", device="cpu", split="validation")


def test_the_first_cases_of_a_file_can_be_trained_on_alone(train_small: Callable[..., RunReport]) -> None:
    report = train_small("few", "train.training_cases=17", epochs=1)
    assert load_checkpoint(report.path).metrics["training_cases"] == 17
    assert train_small("all", "train.training_cases=0", epochs=1).train_loss != report.train_loss
