"""A GPU computes what a CPU does: predictions, training steps, exact solutions, batches of cases, verifications.

The Triton kernels have tests of their own in `tests/nn`.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import disol
from disol._arrays import copy_to_host
from disol.cases import Case
from disol.data import CaseDataset, generate
from disol.fem import System
from disol.solvers import solve_systems

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here")

GPU = "cuda"
# ‖difference‖ / ‖reference‖: bfloat16 keeps 8 bits and TensorFloat32, the default of convolutions on a GPU, 11.
BFLOAT16, TENSOR_FLOAT32, FLOAT64 = 2e-2, 1e-2, 1e-9

PREDICT = """
import json, sys
import numpy, disol
gpu, name = sys.argv[1:]
eager = disol.load(name, device="cpu")
compiled = disol.load(name, device=gpu, engine="compiled", precision="bfloat16")
cases = [disol.draw(eager.problem, 5, index, conventions=eager.conventions) for index in range(4)]
inputs = numpy.stack([case.inputs for case in cases])
expected = eager.predict_pattern(inputs)
compiled.predict_pattern(inputs)
found = compiled.predict_pattern(inputs)  # by the graph that the first prediction has recorded
print(json.dumps(float(numpy.linalg.norm(found - expected) / numpy.linalg.norm(expected))))
"""

TRAIN = """
import json, sys
from pathlib import Path
from disol.data import generate
from disol.training import read_history, train
gpu, folder, shared = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
generate("poisson", 40, folder / "cases.h5", resolution=16, workers=0, device="cpu")
ways = {
    "compiled": (gpu, ["train.compile=graphs", "train.precision=bfloat16"]),
    "eager": ("cpu", ["train.compile=off", "train.precision=float32"]),
}
network, losses = {"width": 8, "depth": 2, "gated_skips": 1}, {}
for way, (device, own) in ways.items():
    overrides = ["train.batch_size=8", "train.epochs=5", "train.learning_rate=3e-3", *shared, *own]
    train("poisson", folder / "cases.h5", folder / way, overrides=overrides, model_settings=network, device=device)
    losses[way] = [[record.train_loss, record.validation_loss] for record in read_history(folder / way)]
print(json.dumps(losses))
"""


def start(script: str, *arguments: str) -> subprocess.Popen:
    """Run a script in a process of its own, for the compiler cannot read what checks the shapes of networks here."""
    command = [sys.executable, "-c", script, GPU, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result_of(process: subprocess.Popen):
    """Wait for a script, and read the last line it prints."""
    printed, errors = process.communicate()
    assert process.returncode == 0, errors
    return json.loads(printed.splitlines()[-1])


def relative_difference(found, expected) -> float:
    return float(np.linalg.norm(np.asarray(found) - expected) / np.linalg.norm(expected))


@pytest.mark.parametrize("shape", [(5,), (1000, 1, 100, 101)])
def test_large_arrays_come_back_from_a_gpu_whole(shape):
    values = torch.rand(shape, dtype=torch.float64, device=GPU)
    target = np.zeros(shape)
    copy_to_host(values, target)
    assert np.array_equal(target, values.cpu().numpy())


def drawn_systems(problem: str) -> System:
    return System.stack(
        [disol.draw(problem, 7, index, resolution=32, shift="all", conventions="paper").system() for index in range(4)]
    )


def batch_of(problem: str, conventions: str) -> dict:
    """Arrays of several cases, as a user gives them, with loads of any size and sign."""
    cases = [disol.draw(problem, 7, index, resolution=32, conventions=conventions) for index in range(6)]
    signs = np.array([1.0, -2.0, 0.0, 3.0, 0.5, 9.0])[:, None, None]
    x = np.linspace(-1, 1, 32) + np.zeros((6, 32, 1))
    given = {"source": signs * x, "initial": signs + x, "times": [0.0, 4.0, 20.0]}
    for name in cases[0].terms:
        if name not in given:
            given[name] = np.stack([case.terms[name] for case in cases])
            if name.startswith("force"):
                given[name] = signs * given[name]
    return {name: given[name] for name in cases[0].terms}


def test_every_shipped_model_predicts_compiled_in_bfloat16_what_it_does_in_eager_float32_on_a_cpu():
    # All at once: compiling one takes up to a minute, most of it on one core.
    processes = {name: start(PREDICT, name) for name in disol.list_pretrained()}
    differences = {name: result_of(process) for name, process in processes.items()}
    assert max(differences.values()) < BFLOAT16, differences
    assert min(differences.values()) > 0, "the CPU was compared with itself"


@pytest.mark.parametrize("settings", [("train.learning_rate=1e-2",), ("train.optimizer=adamw", "train.loss=grid-l1")])
def test_compiled_training_in_bfloat16_with_cuda_graphs_follows_eager_float32_on_a_cpu(settings, tmp_path):
    losses = result_of(start(TRAIN, str(tmp_path), *settings))
    assert np.isfinite(losses["compiled"]).all()
    assert np.array(losses["compiled"]) == pytest.approx(np.array(losses["eager"]), rel=0.05)
    assert losses["eager"][-1][1] < 0.8 * losses["eager"][0][1], "hardly anything was learned, so all would be close"


@pytest.mark.parametrize("problem", ["poisson", "advection-diffusion-high", "elasticity"])
def test_batches_are_solved_as_on_a_cpu(problem):
    systems = drawn_systems(problem)
    expected, found = (solve_systems(systems, device=device) for device in ("cpu", GPU))
    assert found.frames.device.type == GPU
    assert found.fallbacks == ()
    assert relative_difference(found.frames.cpu(), expected.frames.numpy()) < FLOAT64


def test_batches_are_stepped_as_on_a_cpu():
    systems = drawn_systems("heat")
    expected, found = (solve_systems(systems, [0, 3, 10], device) for device in ("cpu", GPU))
    assert found.frames.device.type == GPU
    assert found.fallbacks == ()
    assert relative_difference(found.frames.cpu(), expected.frames.numpy()) < FLOAT64


EVERY_PROBLEM = [
    (name, conventions) for name, problem in disol.PROBLEMS.items() for conventions in problem.known_conventions
]


@pytest.mark.parametrize(("problem", "conventions"), EVERY_PROBLEM)
def test_arrays_are_checked_discretised_and_solved_as_on_a_cpu(problem, conventions):
    batch = batch_of(problem, conventions)
    expected, found = (
        disol.solve_exact(problem, conventions=conventions, device=device, **batch) for device in ("cpu", GPU)
    )
    assert torch.device(found.device).type == GPU
    for name in ("field", "nodes", "pattern", "amplitude"):
        assert isinstance(getattr(found, name), np.ndarray)
        assert relative_difference(getattr(found, name), getattr(expected, name)) < FLOAT64
    assert np.array_equal(found.case.inputs, expected.case.inputs)
    placed = Case.from_arrays(problem, conventions=conventions, device=torch.device(GPU), **batch).on(GPU)
    assert placed.inputs.device.type == GPU
    np.testing.assert_allclose(placed.inputs.cpu().numpy(), expected.case.inputs, rtol=1e-6)


@pytest.mark.parametrize("problem", ["poisson", "elasticity", "heat"])
def test_drawn_cases_are_solved_as_on_a_cpu(problem):
    cases = [disol.draw(problem, 7, index, resolution=32, conventions="paper") for index in range(4)]
    if cases[0].times is not None:
        cases = [Case.from_arrays(case, times=[2.0, 10.0]) for case in cases]
    for asked in (cases, cases[0]):
        expected, found = (disol.solve_exact(asked, device=device) for device in ("cpu", GPU))
        assert relative_difference(found.nodes, expected.nodes) < FLOAT64


def test_a_wrong_case_is_named_on_a_gpu_too():
    batch = batch_of("poisson", "paper")
    batch["dirichlet"] = batch["dirichlet"].copy()
    batch["dirichlet"][4] = 0
    with pytest.raises(disol.DisolError, match="Case 4: 1 of 1 parts of the domain"):
        disol.solve_exact("poisson", device=GPU, **batch, conventions="paper")


@pytest.mark.parametrize("problem", ["poisson", "elasticity", "heat"])
def test_cases_in_the_memory_of_a_gpu_are_those_of_the_file(tmp_path: Path, problem):
    generate(problem, 10, tmp_path / "cases.h5", resolution=16, workers=0, device="cpu")
    cases = CaseDataset(tmp_path / "cases.h5", "all")
    expected, found = cases.to_device("cpu"), cases.to_device(GPU)
    assert found.device.type == GPU
    indices = torch.tensor([7, 0, 3])
    frames = torch.tensor([2, 0, 9]) if problem == "heat" else None
    batch, reference = (each.batch(indices, frames=frames) for each in (found, expected))
    assert batch.keys() == reference.keys()
    for name, values in batch.items():
        assert values.device.type == GPU
        torch.testing.assert_close(values.cpu(), reference[name])


@pytest.mark.parametrize("problem", ["poisson", "elasticity", "heat"])
def test_generation_on_a_gpu_gives_the_cases_of_a_cpu(tmp_path: Path, problem):
    for device in ("cpu", GPU):
        generate(problem, 4, tmp_path / f"{device}.h5", resolution=32, workers=0, device=device)
    found, expected = (CaseDataset(tmp_path / f"{device}.h5", "all").store.read() for device in (GPU, "cpu"))
    assert found.keys() == expected.keys()
    for name, values in found.items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-8, atol=1e-6 if name == "pattern" else 0)


def set_few_unknowns(monkeypatch, number: int) -> None:
    """Let a GPU solve what has more unknowns than that."""
    monkeypatch.setattr("disol.solutions.solve.FEW_UNKNOWNS", {"steady": number, "transient": number})


@pytest.mark.parametrize("few_unknowns", [0, 10**9], ids=["solved-on-the-gpu", "solved-on-its-cpu"])
@pytest.mark.parametrize("name", disol.list_pretrained())
def test_models_are_verified_as_on_a_cpu(monkeypatch, name, few_unknowns):
    set_few_unknowns(monkeypatch, few_unknowns)
    expected, found = (
        model.verify(disol.draw(model.problem, 3, conventions=model.conventions))
        for model in (disol.load(name, device=device) for device in ("cpu", GPU))
    )
    assert relative_difference(found.prediction.field, expected.prediction.field) < TENSOR_FLOAT32
    assert found.prediction.amplitude == pytest.approx(expected.prediction.amplitude, rel=TENSOR_FLOAT32)
    assert found.error == pytest.approx(expected.error, rel=0.2, abs=TENSOR_FLOAT32)
    assert expected.exact.device == "cpu"
    assert torch.device(found.exact.device).type == (GPU if few_unknowns == 0 else "cpu")
    assert torch.device(found.prediction.device).type == GPU
    assert min(found.seconds.values()) > 0


@pytest.mark.parametrize("few_unknowns", [0, 10**9], ids=["solved-on-the-gpu", "solved-on-its-cpu"])
@pytest.mark.parametrize("name", disol.list_pretrained())
@pytest.mark.filterwarnings("ignore:The network was trained on")
def test_batches_are_verified_as_on_a_cpu(monkeypatch, name, few_unknowns):
    set_few_unknowns(monkeypatch, few_unknowns)
    here, there = (disol.load(name, device=device) for device in ("cpu", GPU))
    batch = batch_of(here.problem.name, here.conventions.name)
    expected, found = here.verify(**batch), there.verify(**batch)
    assert relative_difference(found.exact.field, expected.exact.field) < FLOAT64
    assert relative_difference(found.exact.amplitude, expected.exact.amplitude) < FLOAT64
    assert relative_difference(found.prediction.field, expected.prediction.field) < 3 * TENSOR_FLOAT32
    assert found.error == pytest.approx(expected.error, rel=0.2, abs=TENSOR_FLOAT32)
    assert torch.device(found.exact.device).type == (GPU if few_unknowns == 0 else "cpu")
    monkeypatch.setattr("disol.surrogate.verification.cases_at_once", lambda case, device: 2)
    pieces = there.verify(**batch)
    assert relative_difference(pieces.prediction.field, found.prediction.field) < TENSOR_FLOAT32
    assert relative_difference(pieces.exact.field, found.exact.field) < FLOAT64


COMPARE = """
import json, sys
from disol.comparison import compare
if __name__ == "__main__":
    gpu, config, out = sys.argv[1:]
    changes = ["data.cases=40", "train.epochs=3", "train.batch_size=8", "train.ema_decay=0"]
    losses = {}
    for device in (gpu, "cpu"):
        found = compare(config, f"{out}/{device}", device=device, jobs=2, overrides=changes)
        assert not found.failures, found.failures
        losses[device] = {name: [epoch.train_loss for epoch in run.curve] for name, run in found.records.items()}
    print(json.dumps(losses))
"""


def test_every_network_is_trained_as_it_declares_and_as_on_a_cpu(tmp_path):
    config = Path(__file__).parents[1] / "configs" / "compare" / "smoke.toml"
    (tmp_path / "script.py").write_text(COMPARE)
    command = [sys.executable, str(tmp_path / "script.py"), GPU, str(config), str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    losses = json.loads(result.stdout.splitlines()[-1])
    assert len(losses[GPU]) == 8
    for name, found in losses[GPU].items():
        assert found == pytest.approx(losses["cpu"][name], rel=0.05), name
