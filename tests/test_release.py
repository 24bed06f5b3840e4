"""Shipped models are what was measured; their cards and the page of results say just that and are up to date."""

import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import disol
import disol.evaluation
from disol.data import generate
from disol.evaluation import evaluate
from disol.models import create_model, load_checkpoint, save_checkpoint
from disol.models.card import Card
from disol.models.pretrained import PRETRAINED
from disol.training import LOSSES, read_history, train

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "release"))  # scripts, which import each other by name

import comparison  # noqa: E402
import fields  # noqa: E402
import measure  # noqa: E402
import paper  # noqa: E402
import results  # noqa: E402
import shapes  # noqa: E402
import ship  # noqa: E402
from card_page import write_card  # noqa: E402
from wording import number, over_times, percent, training_sentence  # noqa: E402

SIDE = 16
SMALL = {"width": 4, "depth": 2, "gated_skips": 1}
TESTS = {"poisson": {"id": (8, None), "shapes": (8, "shapes")}, "heat": {"id": (1, None), "all": (1, "all")}}
MOST_BYTES = 40 * 10**6


def train_small(problem: str, folder: Path) -> Path:
    """Train a tiny network for two epochs."""
    generate(problem, 20, folder / "train.h5", resolution=SIDE, workers=0, device="cpu")
    changes = ["train.batch_size=8", "train.epochs=2"]
    train(problem, folder / "train.h5", folder / "run", overrides=changes, model_settings=SMALL, device="cpu")
    return folder / "run"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two shipped models, and the page about them."""
    root = tmp_path_factory.mktemp("release")
    for problem, tests in TESTS.items():
        run = train_small(problem, root / "trained" / problem)
        for name, (cases, shift) in tests.items():
            path = root / "tests" / problem / f"{name}.h5"
            generate(problem, cases, path, seed=1, shift=shift, resolution=SIDE, workers=0, device="cpu")
        ship.main(ship_arguments(root, run, problem))
    results.main(page_arguments(root))
    return root


def ship_arguments(root: Path, run: Path, name: str, *more: str) -> list[str]:
    tests = [str(path) for path in sorted((root / "tests" / name.partition("-")[0]).glob("*.h5"))]
    folders = ["--models", str(root / "models"), "--pictures", str(root / "docs" / "results")]
    settings = ["--trained-on", "one processor", "--solved-cases", "3", "--device", "cpu"]
    return [str(run), "--name", name, "--tests", *tests, *settings, *folders, *more]


def page_arguments(root: Path, *more: str) -> list[str]:
    docs = root / "docs"
    return [
        "--models",
        str(root / "models"),
        "--page",
        str(docs / "results.md"),
        "--pictures",
        str(docs / "results"),
        *more,
    ]


@pytest.mark.parametrize("problem", TESTS)
def test_a_shipped_model_has_the_errors_that_are_stored_with_it(release, problem):
    shipped = load_checkpoint(release / "models" / problem)
    assert shipped.card.storage == "float16"
    for name, stored in shipped.metrics["tests"].items():
        found = evaluate(shipped, release / "tests" / problem / f"{name}.h5", device="cpu").files[0]
        frames = stored.get("frames") or [stored]
        assert len(frames) == len(found.times)
        for frame, summaries in zip(frames, found.summaries, strict=True):
            assert frame["metrics"]["rel_l2"]["mean"] == pytest.approx(summaries["rel_l2"].mean, rel=1e-5)
        assert stored["solved"]["cases"] == min(3, stored["cases"])
        assert 0 < stored["solved"]["field_error"]["median"] < 10


def test_fields_that_are_measured_again_have_the_errors_they_had(release, tmp_path):
    for problem in TESTS:
        folder = Path(shutil.copytree(release / "models" / problem, tmp_path / problem))
        shipped = load_checkpoint(folder)
        others = {
            name: {**test, "solved": test["solved"] | {"cases": 99}} for name, test in shipped.metrics["tests"].items()
        }
        ship.write_model(folder, shipped, {**shipped.metrics, "tests": others})
        fields.measure_again(folder, 3, "cpu")
        assert load_checkpoint(folder).metrics == shipped.metrics
        assert (folder / "README.md").read_text() == (release / "models" / problem / "README.md").read_text()


def test_named_shapes_are_told_one_by_one(release, tmp_path):
    test = load_checkpoint(release / "models" / "poisson").metrics["tests"]["shapes"]
    found = test["by_shape"]
    assert sum(each["cases"] for each in found.values()) == test["cases"] == 8
    for error in ("rel_l2", "grid_mae"):
        mean = sum(each["cases"] * each["metrics"][error]["mean"] for each in found.values()) / 8
        assert mean == pytest.approx(test["metrics"][error]["mean"])
    page = (release / "docs" / "results.md").read_text()
    assert f"| - slotted-plate | 1 | {found['shape:slotted-plate+hole']['coverage']:.2f} |" in page
    folder = Path(shutil.copytree(release / "models" / "poisson", tmp_path / "poisson"))
    shipped = load_checkpoint(folder)
    tests = {name: {**each, "by_shape": {}} for name, each in shipped.metrics["tests"].items()}
    ship.write_model(folder, shipped, {**shipped.metrics, "tests": tests})
    shapes.measure_shapes(folder, "cpu", workers=0)
    again = load_checkpoint(folder).metrics["tests"]["shapes"]["by_shape"]
    assert again["shape:y+hole"]["metrics"]["rel_l2"]["mean"] == pytest.approx(
        found["shape:y+hole"]["metrics"]["rel_l2"]["mean"]
    )


def test_a_shape_that_alone_makes_a_target_missed_is_named():
    def shape(error):
        return {"cases": 100, "coverage": 0.3, "metrics": {"grid_mae": {"mean": error}}}

    tests = {
        "shapes": {
            "shift": "shapes",
            "metrics": {"grid_mae": {"mean": 0.011}},
            "by_shape": {
                "shape:y+hole": shape(0.006),
                "shape:arrow+hole": shape(0.008),
                "shape:star+hole": shape(0.019),
            },
        }
    }
    model = SimpleNamespace(card=card_of("poisson"), metrics={"tests": tests})
    (told,) = comparison.shape_sentences(model)
    assert "missed, star: the others together have a `grid_mae` of 7.00e-3" in told
    tests["shapes"]["by_shape"]["shape:arrow+hole"] = shape(0.018)
    assert comparison.shape_sentences(model) == [], "two of them do"


def test_a_card_says_how_its_network_is_unlike_the_published_one(release):
    card = write_card(
        "poisson", *(getattr(load_checkpoint(release / "models" / "poisson"), name) for name in ("card", "metrics"))
    )
    assert "| unlike the published network | width 4, depth 2, gated_skips 1 |" in card
    assert "`fast`, not that of the paper: muon" in card


def test_a_shipped_model_keeps_what_is_known_about_its_run(release):
    trained = load_checkpoint(release / "trained" / "poisson" / "run")
    metrics = load_checkpoint(release / "models" / "poisson").metrics
    assert {name: metrics[name] for name in trained.metrics} == trained.metrics
    assert metrics["loss_curve"]["epoch"] == [1, 2]
    assert metrics["loss_curve"]["validation"][metrics["epoch"] - 1] == metrics["validation_loss"]
    assert metrics["cost"]["trained_on"] == "one processor"


def test_no_file_tells_where_it_was_made(release):
    texts = [path for path in (release / "models").rglob("*") if path.suffix in (".json", ".md")]
    assert len(texts) == 6
    for path in [*texts, release / "docs" / "results.md"]:
        assert str(release.parent) not in path.read_text()


@pytest.mark.parametrize("problem", TESTS)
def test_the_card_and_the_page_say_the_stored_numbers(release, problem):
    metrics = load_checkpoint(release / "models" / problem).metrics
    for test in metrics["tests"].values():
        for frame in test.get("frames") or [test]:
            for page in (release / "models" / problem / "README.md", release / "docs" / "results.md"):
                assert number(frame["metrics"]["rel_l2"]["p95"]) in page.read_text()
        assert percent(test["solved"]["field_error"]["mean"]) in (release / "docs" / "results.md").read_text()


def test_single_numbers_of_a_transient_problem_say_which_times_they_are_the_mean_over(release):
    shipped = load_checkpoint(release / "models" / "heat")
    tests = shipped.metrics["tests"]
    assert over_times(tests["id"]) == "mean over 2, 8, 14 and 20 s"
    assert over_times(load_checkpoint(release / "models" / "poisson").metrics["tests"]["id"]) == ""
    frames = tests["id"]["frames"]
    means = [frame["metrics"]["rel_l2"]["mean"] for frame in frames if frame["time"] in (2, 8, 14, 20)]
    paths = (release / "models" / "heat" / "README.md", release / "docs" / "results.md")
    card, page = (" ".join(path.read_text().split()) for path in paths)
    assert f"| rel_l2, in distribution | {number(sum(means) / 4)} (mean over 2, 8, 14 and 20 s, coverage" in card
    assert f"in distribution {percent(frames[-1]['metrics']['rel_l2']['mean'])} at 50 s" in card
    assert "Each case is at one time, drawn from every 2 s up to 20 s." in card
    assert "each the mean over 2, 8, 14 and 20 s" in page
    assert "spread over the cases of each test, at 2, 8, 14, 20, 30, 40 and 50 s together" in page


def test_the_two_losses_of_a_run_are_told_apart(release):
    run = load_checkpoint(release / "models" / "poisson").metrics["run"]
    told = results.losses_caption({**run, "train.loss": "relative-l2"})
    assert "Training loss: relative L2 error" in told
    assert "Validation: `grid_mae`" in told
    assert set(results.LOSSES) == set(LOSSES)


def test_a_card_says_whether_cases_were_moved(release):
    shipped = load_checkpoint(release / "models" / "poisson")
    for moved in (False, True):
        run = {**shipped.metrics["run"], "train.augment_translation": moved}
        card = write_card("poisson", shipped.card, {**shipped.metrics, "run": run})
        assert ("symmetry on, cases moved over the grid" in card) == moved


def test_a_run_that_began_with_the_weights_of_another_is_told_as_its_second_part(release, tmp_path):
    trained = release / "trained" / "poisson"
    changes = ["train.batch_size=8", "train.epochs=3", "train.learning_rate=1e-3"]
    settings = {"model_settings": SMALL, "overrides": changes, "device": "cpu"}
    later = train("poisson", trained / "train.h5", tmp_path / "run", start=trained / "run", **settings).path
    run, records = ship.joined(ship.load_finished(later), read_history(later), trained / "run")
    first = load_checkpoint(trained / "run").metrics["epoch"]
    assert [record.epoch for record in records] == list(range(1, first + 4))
    assert [record.seconds for record in records] == sorted(record.seconds for record in records)
    assert run.metrics["epochs"] == first + 3
    best = min(records[first:], key=lambda record: record.validation_loss)
    assert (run.metrics["epoch"], run.metrics["validation_loss"]) == (best.epoch, best.validation_loss)
    told = training_sentence({**run.metrics, "cost": ship.cost_of(run, records, "one processor")})
    assert f"{first + 3} epochs" in told
    assert f"The first {first} of these epochs" in told
    assert "learning rate of 0.003 that ended" in told
    assert "others (seed" not in told
    with pytest.raises(ValueError, match="did not begin with the weights"):
        ship.joined(run, records, later)


def test_a_run_that_began_with_a_shipped_model_on_other_cases_tells_of_both(release, tmp_path):
    shipped, more = release / "models" / "poisson", tmp_path / "more.h5"
    generate("poisson", 20, more, seed=7, resolution=SIDE, workers=0, device="cpu")
    changes = ["train.batch_size=8", "train.epochs=2"]
    later = train("poisson", more, tmp_path / "run", start=shipped, overrides=changes, device="cpu").path
    run, records = ship.joined(ship.load_finished(later), read_history(later), shipped)
    before = load_checkpoint(shipped).metrics
    first = before["epoch"]
    assert [record.epoch for record in records] == list(range(1, first + 3))
    assert records[first - 1].validation_loss == before["loss_curve"]["validation"][first - 1]
    told = {"cost": ship.cost_of(run, records, "one processor"), "num_parameters": 1, "tests": {}, "rivals": {}}
    card = " ".join(write_card("poisson", run.card, {**run.metrics, **told, "pictures": []}).split())
    assert "Trained on 20 cases (seed 7" in card
    assert f"The first {first} of these epochs" in card
    assert "are of a run on 20 others (seed 0) with a learning rate of 0.003" in card
    for seed in (0, 7):
        assert f"20 cases of `poisson`, seed {seed}, no shift" in card


def test_every_picture_of_the_page_exists(release):
    page = (release / "docs" / "results.md").read_text()
    links = [line.partition("](")[2].removesuffix(")") for line in page.splitlines() if line.startswith("![")]
    assert len(links) == len(set(links)) == 4 + (3 + 2)  # poisson has one picture for a test, heat one for each case
    assert {path.relative_to(release / "docs").as_posix() for path in release.rglob("docs/**/*.png")} == set(links)


def test_a_page_that_is_out_of_date_is_noticed(release, tmp_path, capsys):
    page = tmp_path / "results.md"
    arguments = [*page_arguments(release)[:2], "--page", str(page), "--pictures", str(release / "docs" / "results")]
    results.main(arguments)
    results.main([*arguments, "--check"])
    page.write_text(page.read_text().replace("missed", "met"))
    with pytest.raises(SystemExit) as stopped:
        results.main([*arguments, "--check"])
    assert stopped.value.code == 1
    assert "Run python release/results.py" in capsys.readouterr().err


def test_a_card_that_is_out_of_date_is_noticed(release):
    card = release / "models" / "heat" / "README.md"
    written = card.read_text()
    card.write_text(written + "\nAlways right.\n")
    with pytest.raises(SystemExit) as stopped:
        results.main(page_arguments(release, "--check"))
    assert stopped.value.code == 1
    results.main(page_arguments(release))
    assert card.read_text() == written


def test_a_model_is_not_replaced_before_it_is_measured(release, monkeypatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {path: path.read_bytes() for path in (release / "models" / "poisson").iterdir()}
    monkeypatch.setattr(ship, "measure_fields", interrupt)
    with pytest.raises(KeyboardInterrupt):
        ship.main(ship_arguments(release, release / "trained" / "poisson" / "run", "poisson"))
    assert {path: path.read_bytes() for path in (release / "models" / "poisson").iterdir()} == before


@pytest.mark.parametrize(
    ("name", "more", "complaint"),
    [("poisson-Fine", (), "small letters"), ("poisson", ("--rival", "authors"), "NAME=WEIGHTS")],
)
def test_bad_requests_are_refused_in_one_line(release, capsys, name, more, complaint):
    with pytest.raises(SystemExit) as stopped:
        ship.main(ship_arguments(release, release / "trained" / "poisson" / "run", name, *more))
    assert stopped.value.code == 2
    told = capsys.readouterr().err
    assert complaint in told
    assert told.count("\n") == 1


def test_cases_that_training_has_seen_are_no_test(release, tmp_path, capsys):
    generate("poisson", 8, tmp_path / "seen.h5", seed=0, shift="source", resolution=SIDE, workers=0, device="cpu")
    arguments = ship_arguments(release, release / "trained" / "poisson" / "run", "poisson")
    arguments.insert(arguments.index("--tests") + 1, str(tmp_path / "seen.h5"))
    with pytest.raises(SystemExit) as stopped:
        ship.main(arguments)
    assert stopped.value.code == 2
    told = capsys.readouterr().err
    assert "another seed than the training file, but both have 0. Generate it with --seed 1." in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(("shift", "told"), [("", "seed 0, no shift"), ("boundary", "seed 0, shift `boundary`")])
def test_the_card_tells_what_the_training_cases_were_shifted_by(release, shift, told):
    shipped = load_checkpoint(release / "models" / "poisson")
    run = {**shipped.metrics["run"], "data.shift": shift}
    assert told in write_card("poisson", shipped.card, {**shipped.metrics, "run": run})


def test_an_unfinished_run_is_refused(tmp_path):
    save_checkpoint(tmp_path, create_model("disol", "poisson"), "poisson")
    with pytest.raises(ValueError, match="finished run"):
        ship.load_finished(tmp_path)


def test_a_run_that_was_stopped_is_shipped_if_that_is_said_and_its_card_says_so(release, tmp_path):
    run = Path(shutil.copytree(release / "trained" / "poisson" / "run", tmp_path / "run"))
    finished = load_checkpoint(run)
    told = {name: value for name, value in finished.metrics.items() if name not in ("finished", "epochs", "seconds")}
    save_checkpoint(run, finished.network, finished.problem, resolution=SIDE, metrics=told)
    with pytest.raises(ValueError, match="finished run"):
        ship.load_finished(run)
    stopped = ship.load_finished(run, stopped=True)
    assert (stopped.metrics["epochs"], stopped.metrics["stopped"]) == (2, True)
    sentence = training_sentence({**stopped.metrics, "cost": ship.cost_of(stopped, read_history(run), "a machine")})
    assert "It was stopped before the end of the 2 epochs that its schedule was made for." in sentence


def test_a_case_that_is_not_that_of_its_file_is_noticed(release):
    model = disol.load(release / "models" / "poisson", device="cpu")
    case = disol.draw("poisson", seed=1, resolution=SIDE, conventions="paper")
    exact = disol.solve_exact(case)
    measured = measure.measure_cases(model, [(case, exact.amplitude)])
    predicted = model.predict(case)
    missed = np.linalg.norm(predicted.field - exact.field) / np.linalg.norm(exact.field)
    assert measured["field_error"]["mean"] == pytest.approx(missed, rel=1e-9)
    assert measured["amplitude_error"]["mean"] == pytest.approx(
        abs(predicted.amplitude / exact.amplitude - 1), rel=1e-9
    )
    for other in (1 + 1e-6, 1.01):
        with pytest.raises(ValueError, match="Generate the file again"):
            measure.measure_cases(model, [(case, other * exact.amplitude)])


def test_rivals_are_measured_on_the_same_cases_and_samples(release, tmp_path, released_data):
    arguments = ship_arguments(release, release / "trained" / "poisson" / "run", "poisson")
    arguments += ["--rival", f"authors={released_data / 'published_poisson.safetensors'}"]
    arguments += ["--samples", str(released_data / "poisson_published.npz")]
    arguments += ["--models", str(tmp_path), "--pictures", str(tmp_path / "pictures")]
    ship.main([*arguments, "--solved-cases", "0"])
    metrics = load_checkpoint(tmp_path / "poisson").metrics
    rival = metrics["rivals"]["authors"]
    assert {name: test["cases"] for name, test in rival.items()} == {"id": 8, "shapes": 8}
    assert rival["id"]["coverage"] == metrics["tests"]["id"]["coverage"]
    authors = metrics["released_samples"]["models"]["authors"]
    assert sorted(authors["rel_l2"]) == pytest.approx([0.089, 0.093, 0.148, 0.164], rel=0.01)
    results.main(["--models", str(tmp_path), "--page", str(tmp_path / "results.md")])
    page = (tmp_path / "results.md").read_text()
    assert all(number(error) in page for error in [*authors["rel_l2"], rival["id"]["metrics"]["grid_mae"]["mean"]])


def card_of(problem: str, conventions: str = "paper") -> Card:
    equation = disol.PROBLEMS[problem]
    return Card.of(create_model("disol", problem), equation, conventions, equation.resolution, storage="float16")


def test_figures_of_the_paper_are_brought_to_the_scale_of_our_patterns():
    ours, theirs = (paper.find_target(card_of("elasticity", rules), "") for rules in ("paper", "published"))
    assert theirs.disol == paper.FIGURES["elasticity"]["id"]["DiSOL"]
    assert ours.disol == pytest.approx(1.6 * theirs.disol)
    assert paper.find_target(card_of("elasticity"), "all") is None, "that figure of the paper is no target"
    assert paper.find_target(card_of("poisson"), "").disol == paper.FIGURES["poisson"]["id"]["DiSOL"]


def test_the_best_rival_of_the_paper_is_not_its_own_model():
    target = paper.find_target(card_of("poisson"), "all")
    assert (target.rival_name, target.rival) == ("Geo-FNO", 2.45e-2)


def test_a_target_is_met_by_numbers_alone():
    assert paper.verdict(2e-3, 2e-3) == "met"
    assert paper.verdict(2.1e-3, 2e-3) == "missed"
    assert paper.verdict(None, 2e-3) == "missed"  # an error that is not finite
    assert paper.verdict(1.0, None) == "none"


@pytest.mark.parametrize(("value", "written"), [(3.93e-3, "3.93e-3"), (1.0, "1.00"), (12.0, "1.20e1"), (0.0, "0.00")])
def test_numbers_are_written_with_three_digits(value, written):
    assert number(value) == written


@pytest.mark.parametrize(
    ("value", "written"), [(0.0123, "1.2 %"), (1.996, "200 %"), (0.0996, "10 %"), (2e-5, "0.0020 %")]
)
def test_shares_are_written_in_per_cent(value, written):
    assert percent(value) == written


def test_importing_evaluation_takes_only_what_is_asked_for():
    names = ", ".join(sorted(disol.evaluation.__all__))
    program = "import sys, disol.evaluation\nassert not {'torch', 'matplotlib', 'rich'} & sys.modules.keys()\n"
    subprocess.run([sys.executable, "-c", f"{program}from disol.evaluation import {names}"], check=True)
    with pytest.raises(AttributeError, match=r"no 'evaluation'\. Its names are .*evaluate"):
        disol.evaluation.evaluation  # noqa: B018


@pytest.mark.parametrize("name", disol.list_pretrained())
def test_a_model_of_the_package_loads_and_was_tested_in_and_out_of_distribution(name):
    model = disol.load(name, device="cpu")
    tests = json.loads((PRETRAINED / name / "metrics.json").read_text())["tests"]
    assert tests["id"]["shift"] == ""
    assert any(test["shift"] for test in tests.values())
    verified = model.verify(disol.draw(model.problem, seed=7, conventions=model.conventions))
    assert verified.prediction.field.max() > 0


def test_the_pages_about_the_models_of_the_package_are_up_to_date():
    results.main(["--check"])


def test_the_package_with_its_models_is_small(tmp_path):
    packed = tmp_path / "disol.whl"  # what is downloaded: code and models, compressed as a wheel is
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in Path(disol.__file__).parent.rglob("*"):
            if path.is_file() and path.suffix != ".pyc":
                archive.write(path)
    assert 10**6 < packed.stat().st_size < MOST_BYTES
