"""An evaluation measures every case of its files, and refuses files the model was not made for."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from known_answers import TINY, Recalling, RecallingAmplitude, offset_pattern, stored_pattern
from torch import nn

import disol
from disol.data import CaseDataset, StoreSettings, create_store, generate, open_store
from disol.errors import DisolError
from disol.evaluation import evaluate
from disol.evaluation.evaluate import distinct_names
from disol.evaluation.metrics import METRICS
from disol.evaluation.run import rank_cases
from disol.models import create_model, import_published, load_checkpoint, save_checkpoint
from disol.models.pretrained import PRETRAINED
from disol.problems import PROBLEMS

ALL_TIMES = tuple(2.0 * frame for frame in range(1, 26))


def problem_of(path: Path) -> str:
    return open_store(path).settings.problem


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return save_checkpoint(tmp_path / "run", create_model("disol", "poisson", **TINY), "poisson", resolution=16)


@pytest.mark.parametrize("kind", ["poisson", "shapes", "elasticity", "published", "heat"])
def test_the_stored_pattern_has_no_error(kind, files):
    found = evaluate(Recalling(problem_of(files[kind]), files[kind], stored_pattern), files[kind])
    for name, values in found.files[0].values.items():
        assert not values.any(), name


@pytest.mark.parametrize("kind", ["poisson", "elasticity", "published", "heat"])
def test_a_constant_offset_has_the_error_it_must_have(kind, files):
    model = Recalling(problem_of(files[kind]), files[kind], offset_pattern)
    found = evaluate(model, files[kind], batch_size=3).files[0]
    stored = open_store(files[kind]).read()
    pattern, domain = stored["pattern"].astype(float), stored["domain"]
    pattern = pattern[:, [0, 3, 6, 9, 14, 19, 24]] if kind == "heat" else pattern[:, None]
    squares = (pattern**2).sum((2, 3, 4)).T
    pixels = pattern.shape[2] * domain.sum((1, 2))
    assert found.values["mae"] == pytest.approx(0.25, rel=1e-6)
    assert found.values["max_error"] == pytest.approx(0.25, rel=1e-6)
    assert found.coverage == pytest.approx(domain.mean((1, 2)))
    assert found.values["grid_mae"] == pytest.approx(np.broadcast_to(0.25 * found.coverage, squares.shape), rel=1e-6)
    assert found.values["rel_l2"] == pytest.approx(0.25 * np.sqrt(pixels / squares), rel=1e-6)


def test_components_are_measured_one_by_one(files):
    def wrong_in_x(item):
        return item["target"] * torch.tensor([1.1, 1.0])[:, None, None]

    values = evaluate(Recalling("elasticity", files["elasticity"], wrong_in_x), files["elasticity"]).files[0].values
    assert values["rel_l2_u_x"] == pytest.approx(0.1, rel=1e-5)
    assert not values["rel_l2_u_y"].any()
    assert (values["rel_l2"] < values["rel_l2_u_x"]).all()
    assert set(values) == {*METRICS, *(f"{name}_{field}" for name in METRICS for field in ("u_x", "u_y"))}


@pytest.mark.parametrize("kind", ["poisson", "elasticity", "heat"])
@pytest.mark.parametrize("model", ["disol", "disol-amplitude"])
def test_the_numbers_do_not_depend_on_the_batch(model, kind, files):
    network = create_model(model, kind, **TINY)
    one, many = (evaluate(network, files[kind], batch_size=batch).files[0].values for batch in (1, 64))
    for name in one:
        # Errors are of amplitudes and patterns in float32, of which six digits are known: of small errors fewer.
        assert one[name] == pytest.approx(many[name], rel=1e-4, abs=1e-7), name


def test_a_split_is_part_of_the_file_and_cases_keep_their_numbers(files):
    model = create_model("disol", "poisson", **TINY)
    parts = [evaluate(model, files["shapes"], split=split).files[0] for split in ("train", "validation", "all")]
    train, validation, whole = parts
    assert sorted([*train.index, *validation.index]) == whole.index.tolist() == list(range(8))
    for part in (train, validation):
        assert part.values["rel_l2"][0] == pytest.approx(whole.values["rel_l2"][0, part.index], rel=1e-4)
        assert part.shift == tuple(whole.shift[index] for index in part.index)
    assert len(set(whole.shift)) == 7


def test_examples_are_the_best_the_median_and_the_worst_case(files):
    model = create_model("disol", "poisson", **TINY).eval()
    found = evaluate(model, files["poisson"]).files[0]
    order = np.argsort(found.values["rel_l2"][0])
    assert [example.rank for example in found.examples] == ["best", "median", "worst"]
    assert [example.index for example in found.examples] == found.index[order[[0, 3, 6]]].tolist()
    item = CaseDataset(files["poisson"], "all")[int(order[6])]
    assert np.array_equal(found.examples[2].reference[0], item["target"])
    assert np.array_equal(found.examples[2].inputs, item["inputs"])
    with torch.no_grad():
        assert found.examples[2].prediction == pytest.approx(model(item["inputs"][None]).numpy(), abs=1e-5)
    for place, example in zip(order[[0, 3, 6]], found.examples, strict=True):
        assert example.errors["rel_l2"] == found.values["rel_l2"][:, place]


def test_examples_of_a_transient_problem_are_ranked_by_their_mean_over_times():
    errors = np.array([[0.0, 1.0, 2.0], [9.0, 2.0, 2.5]])
    assert rank_cases(errors) == {"best": 1, "median": 2, "worst": 0}


def test_an_example_has_the_amplitude_of_each_component(files):
    found = evaluate(create_model("disol", "elasticity", **TINY), files["published"]).files[0]
    stored = open_store(files["published"]).read()["amplitude"]
    for example in found.examples:
        assert example.amplitude.tolist() == stored[example.index].tolist()


def test_cases_of_one_outline_say_so(files):
    found = evaluate(create_model("disol", "poisson", **TINY), files["shapes"]).files[0]
    assert found.outline.tolist() == [0, 1, 2, 3, 4, 5, 6, 0]


def test_few_cases_are_shown_once(files):
    found = evaluate(create_model("disol", "poisson", **TINY), files["fine"]).files[0]
    assert [example.rank for example in found.examples] == ["best", "worst"]


@pytest.mark.parametrize(
    ("frames", "times"),
    [(None, (2, 8, 14, 20, 30, 40, 50)), ("all", ALL_TIMES), ([20, 4.0], (20, 4))],
)
def test_heat_is_measured_at_each_time_asked_for(frames, times, files):
    found = evaluate(Recalling("heat", files["heat"], stored_pattern), files["heat"], frames=frames).files[0]
    assert found.times == times
    assert found.values["rel_l2"].shape == (len(times), 3)
    assert len(found.summaries) == len(times)
    stored = open_store(files["heat"]).read()["pattern"]
    for frame, time in enumerate(times):
        example = found.examples[0]
        assert np.array_equal(example.reference[frame], stored[example.index, ALL_TIMES.index(time)])


@pytest.mark.parametrize("kind", ["poisson", "published", "heat"])
def test_an_amplitude_model_is_measured_by_the_largest_amplitude(kind, files):
    def too_large(item):
        return (2 * item["amplitude"].max()).log().float()

    path = files[kind]
    evaluation = evaluate(RecallingAmplitude(problem_of(path), path, too_large), path)
    found = evaluation.files[0]
    amplitude = open_store(path).read()["amplitude"].reshape(len(found), -1).max(1)
    assert evaluation.predicts == "log-amplitude"
    assert found.values["log_amplitude"][0] == pytest.approx(np.log(amplitude))
    for frame, summaries in enumerate(found.summaries):
        assert summaries["squared_log_error"].mean == pytest.approx(np.log(2) ** 2, rel=1e-5)
        assert summaries["rel_amplitude_error"].median == pytest.approx(1, rel=1e-5)
        assert found.correlations[frame] == pytest.approx(1)
    assert set(found.summaries[0]) == {"squared_log_error", "rel_amplitude_error"}
    assert found.examples == ()


def write_samples(path: Path, samples: dict[str, np.ndarray], **changes: object) -> Path:
    """Write cases that were not drawn here into a file."""
    equation, number = PROBLEMS["poisson"], len(samples["pattern"])
    settings = StoreSettings(
        problem="poisson",
        equation=equation.equation,
        parameters="{}",
        channels=tuple(equation.channels),
        fields=equation.fields,
        conventions="published",
        seed=0,
        shift="",
        shifts=("",),
        fixed_outlines=False,
        resolution=samples["pattern"].shape[-1],
        num_cases=number,
        times=(),
        component_amplitudes=False,
    )
    with create_store(path, replace(settings, **changes)) as writer:
        writer.write_chunk(0, samples)
    return path


def test_released_weights_have_their_published_errors_on_the_released_samples(released_data, tmp_path):
    with np.load(released_data / "poisson_published.npz") as file:
        released = dict(file)
    channels = dict(zip(("domain", "dirichlet", "source"), released["inputs"].swapaxes(0, 1), strict=True))
    samples = {**channels, "pattern": released["outputs"], "amplitude": np.ones(4)}
    path = write_samples(tmp_path / "released.h5", samples)
    found = evaluate(import_published(released_data / "published_poisson.safetensors"), path)
    values = {name: measured[0] for name, measured in found.files[0].values.items()}
    assert values["mae"].round(4).tolist() == [0.0309, 0.0194, 0.0580, 0.0777]
    assert (100 * values["rel_l2"]).round(1).tolist() == [9.3, 8.9, 14.8, 16.4]
    assert found.files[0].summaries[0]["grid_mae"].mean == pytest.approx(9.46e-3, abs=5e-6)


def test_a_case_without_a_solution_is_left_out_for_amplitudes_and_said_so(tmp_path):
    domain = np.ones((3, 16, 16), dtype=bool)
    amplitude = np.array([1.0, 0.0, 2.0])
    pattern = np.ones((3, 1, 16, 16), dtype=np.float32) * (amplitude > 0)[:, None, None, None]
    samples = {"domain": domain, "dirichlet": domain, "source": pattern[:, 0], "pattern": pattern}
    path = write_samples(tmp_path / "zero.h5", samples | {"amplitude": amplitude})
    found = evaluate(create_model("disol-amplitude", "poisson", **TINY), path)
    assert found.files[0].index.tolist() == [0, 2]
    assert any("1 cases" in note and "left out" in note for note in found.notes)
    assert np.isfinite(evaluate(create_model("disol", "poisson", **TINY), path).files[0].values["rel_l2"]).all()


def test_predictions_that_are_no_numbers_are_counted(files):
    broken = Recalling("poisson", files["poisson"], lambda item: item["target"] * (torch.nan if item["index"] else 1))
    found = evaluate(broken, files["poisson"])
    assert any("6 of 7 cases" in note and "NaN" in note for note in found.notes)
    assert found.files[0].examples[0].index == 0


def test_a_model_is_left_as_it_was(files):
    model = create_model("disol", "poisson", **TINY).train()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    evaluate(model, files["poisson"])
    assert model.training
    assert all(torch.equal(before[name], weight) for name, weight in model.state_dict().items())


def test_a_checkpoint_its_folder_and_its_model_have_the_same_errors(checkpoint, files):
    loaded = load_checkpoint(checkpoint)
    found = [evaluate(given, files["poisson"]) for given in (checkpoint, loaded, loaded.network)]
    for other in found[1:]:
        assert np.array_equal(found[0].files[0].values["rel_l2"], other.files[0].values["rel_l2"])
    assert found[0].model["problem"] == "poisson"
    assert found[0].notes == ()
    assert "does not say what it was trained on" in found[2].notes[0]


def test_another_resolution_is_evaluated_and_noted(checkpoint, files):
    found = evaluate(checkpoint, [files["poisson"], files["fine"]])
    assert [len(file) for file in found.files] == [7, 2]
    assert "grid of 24 x 24, the model was trained on 16 x 16" in found.notes[0]
    assert len(found.notes) == 1


def test_files_that_the_model_was_not_made_for_are_refused(checkpoint, files, tmp_path):
    amplitudes = create_model("disol-amplitude", "elasticity", **TINY)
    elastic = save_checkpoint(tmp_path / "elastic", amplitudes, "elasticity", resolution=16)
    slow = replace(PROBLEMS["heat"], time_scale=0.5)
    heat = save_checkpoint(tmp_path / "heat", create_model("disol", "heat", **TINY), slow, resolution=16)
    for model, kind, message in [
        (checkpoint, "elasticity", "the problem 'poisson' that the model was made for, got 'elasticity'"),
        (checkpoint, "advection-diffusion-high", "the problem 'poisson' .*, got 'advection-diffusion-high'"),
        (elastic, "published", "the conventions 'paper' .*, got 'published'"),
        (heat, "heat", r"the time_scale 0\.5 that the model was made for, got 0\.01"),
        (create_model("disol", "heat", **TINY), "poisson", "must map domain, dirichlet, source .* Expected 5 channels"),
    ]:
        with pytest.raises(ValueError, match=message) as raised:
            evaluate(model, files[kind])
        assert "\n" not in str(raised.value)


def test_a_file_whose_patterns_are_scaled_otherwise_is_refused(checkpoint, files, monkeypatch):
    store = open_store(files["poisson"])
    changed = replace(store, settings=replace(store.settings, component_amplitudes=True))
    monkeypatch.setattr(sys.modules["disol.evaluation.evaluate"], "open_store", lambda path: changed)
    with pytest.raises(ValueError, match=r"the normalisation 'joint' .*, got 'component'"):
        evaluate(checkpoint, files["poisson"])


def test_wrong_arguments_are_explained(files, tmp_path):
    model = create_model("disol", "poisson", **TINY)
    heat = create_model("disol", "heat", **TINY)
    (tmp_path / "file").write_text("")
    for network, path, settings, message in [
        (model, [], {}, "one file of cases or more"),
        (model, "nowhere.h5", {}, "There is no file"),
        (model, files["poisson"], {"split": "test"}, "Unknown split 'test'"),
        (model, files["poisson"], {"batch_size": 0}, "batch_size must be"),
        (model, files["poisson"], {"device": "gpu"}, "Unknown device 'gpu'"),
        (model, files["poisson"], {"frames": [2]}, "poisson is steady"),
        (model, files["poisson"], {"out": tmp_path / "file"}, "is a file"),
        (heat, files["heat"], {"frames": [2, 3.5]}, "25 frames from 2 s to 50 s, got 3.5"),
        (heat, files["heat"], {"frames": []}, "got none"),
        (heat, files["heat"], {"frames": "last"}, "or 'all', got 'last'"),
        (heat, files["heat"], {"frames": 2}, "frames must be seconds, such as .* got 2"),
        (heat, files["heat"], {"frames": ["2"]}, "frames must be a number, got '2'"),
        (heat, files["heat"], {"frames": [10**400]}, "frames must be finite"),
        (model, files["poisson"], {"out": [20.0]}, r"out must be a path, got \[20\.0\]"),
    ]:
        with pytest.raises(DisolError, match=message) as raised:
            evaluate(network, path, **settings)
        assert "\n" not in str(raised.value)


def test_every_handle_of_a_shipped_model_has_the_same_errors(tmp_path):
    path = tmp_path / "cases.h5"
    generate("poisson", 2, path, seed=3, resolution=32, workers=0, device="cpu")
    shipped = disol.load("poisson", device="cpu")
    handles = ("poisson", PRETRAINED / "poisson", shipped, shipped.checkpoint, shipped.network)
    found = [evaluate(handle, path).files[0].values["rel_l2"] for handle in handles]
    assert all(np.array_equal(values, found[0]) for values in found)


def test_a_network_of_ones_own_is_evaluated_on_the_problem_of_the_files(files):
    class Mine(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Conv2d(5, 2, 3, padding=1)

        def forward(self, inputs):
            return self.layer(inputs) * inputs[:, :1]

    found = evaluate(Mine(), [files["elasticity"], files["published"]])
    assert [file.problem.name for file in found.files] == ["elasticity", "elasticity"]
    assert found.model["model"].endswith("Mine")
    assert "does not say what it was trained on" in found.notes[0]
    with pytest.raises(ValueError, match="Mine must map domain, dirichlet, source"):
        evaluate(Mine(), files["poisson"])


def test_a_problem_of_ones_own_has_to_be_given(tmp_path):
    mine = replace(PROBLEMS["poisson"], name="mine", diffusion=2.0)
    path = tmp_path / "mine.h5"
    generate(mine, 2, path, seed=3, resolution=16, workers=0, device="cpu")
    model = create_model("disol", mine, **TINY)
    assert evaluate(model, path, problem=mine).files[0].problem == mine
    with pytest.raises(ValueError, match=r"cases of 'mine', which is not among poisson, .* Pass that problem too"):
        evaluate(model, path)


def test_what_is_found_prints_in_a_few_lines(files):
    found = evaluate(create_model("disol", "heat", **TINY), files["heat"], frames=[2, 50])
    file = found.files[0]
    table = repr(found)
    assert table.startswith("Evaluation of disol on cpu\nfile ")
    assert f"{file.summaries[1]['rel_l2'].p95:.2e}" in table
    assert len(table.splitlines()) == 9  # of which the last is a note
    assert repr(file).startswith("FileEvaluation(heat: 3 of 3 cases of heat, 16 x 16, 25 frames to 50 s,")
    assert repr(file.examples[0]).startswith("Example(best: case ")
    for item in (file, file.examples[0], file.summaries[0]["rel_l2"]):
        assert len(repr(item)) < 250


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("poison", "", "Unknown model 'poison'"),
        ("poisson", "batch_size=0", "batch_size must be"),
        ("poisson", "device='gpu'", "Unknown device"),
        ("poisson", "split='test'", "Unknown split"),
        ("poisson", "problem='poison'", "Unknown problem"),
    ],
)
def test_a_typo_is_told_before_torch_is_imported(model, options, message, files):
    program = (
        "import sys\nfrom disol.evaluation import evaluate\n"
        f"try: evaluate({model!r}, {str(files['poisson'])!r}, {options})\n"
        f"except ValueError as error: assert {message!r} in str(error), error\n"
        "else: raise AssertionError\n"
        "assert not {'torch', 'matplotlib', 'rich'} & sys.modules.keys()\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_files_that_share_their_name_are_told_apart(files):
    store = open_store(files["poisson"])
    other = open_store(files["heat"])
    assert distinct_names([store, other, store]) == ["poisson-1", "heat", "poisson-2"]


def test_the_first_cases_of_a_split_can_be_evaluated_alone(checkpoint, files):
    whole = evaluate(checkpoint, files["poisson"], device="cpu", progress=False).files[0]
    some = evaluate(checkpoint, files["poisson"], device="cpu", first=3, progress=False).files[0]
    assert some.index.tolist() == [0, 1, 2]
    assert some.values["rel_l2"] == pytest.approx(whole.values["rel_l2"][:, :3])
    with pytest.raises(disol.DisolError, match="first must be at least 1, got 0"):
        evaluate(checkpoint, files["poisson"], first=0)
