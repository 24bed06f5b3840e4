"""What is kept of a run comes back from its file, and damaged or foreign files are refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
from made_up import made_up_config, made_up_record

from disol.comparison.plan import Places, PlannedRun, find_rate, plan_runs, read_records
from disol.comparison.records import pack, read_record, unpack, write_record
from disol.errors import DisolError


def test_a_run_comes_back_from_its_file(tmp_path):
    run = PlannedRun(made_up_config(tmp_path), "unet", 2, 3e-3)
    record = made_up_record(run, [0.3, float("nan"), 0.123456], refused=2)
    record.tests["id"].errors["rel_l2"][:] = [1e-3, np.inf, 1.23456e-2, 0.5]
    write_record(record, tmp_path / "run.json")
    found = read_record(tmp_path / "run.json")
    assert found.identity == run.identity
    assert found.curve[2] == record.curve[2]
    assert np.isnan(found.curve[1].validation_loss)
    assert (found.parameters, found.real_numbers, found.cases, found.refused) == (1000, 1500, 30, 2)
    np.testing.assert_array_equal(found.tests["id"].errors["rel_l2"], [1e-3, np.nan, 1.235e-2, 0.5])
    assert found.tests["shapes"].index == (0, 1, 2, 3, 4)
    assert found.tests["shapes"].shift == record.tests["shapes"].shift
    np.testing.assert_allclose(found.tests["id"].shown[0].pattern, record.tests["id"].shown[0].pattern, atol=1e-5)


def test_arrays_are_kept_to_five_digits_in_little_room():
    array = np.random.default_rng(0).normal(size=(2, 16, 16))
    stored = json.loads(json.dumps(pack(array)))
    assert np.abs(unpack(stored) - array).max() < 1e-4
    assert not unpack(pack(np.zeros((3, 4)))).any()
    with pytest.raises(ValueError, match="shape"):
        unpack({**stored, "shape": [2**20, 2**20]})
    with pytest.raises(ValueError):  # noqa: PT011  NumPy's own words
        unpack({**stored, "shape": [2, 16, 17]})


@pytest.mark.parametrize(
    "damage", [{"format": "other"}, {"curve": {}}, {"tests": {"id": {"asked": 3}}}, {"seconds": "x"}]
)
def test_damaged_results_are_refused_in_one_line(damage, tmp_path):
    run = PlannedRun(made_up_config(tmp_path), "unet", 0, 3e-3)
    path = tmp_path / "run.json"
    write_record(made_up_record(run, [0.3]), path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage}))
    with pytest.raises(DisolError, match="must hold a run of a comparison"):
        read_record(path)


def test_results_of_other_settings_are_refused(tmp_path):
    config = made_up_config(tmp_path)
    places = Places(tmp_path, tmp_path / "work")
    run = PlannedRun(config, "unet", 0, 3e-3)
    write_record(made_up_record(run, [0.3]), places.record(run.name))
    assert list(read_records(config, places, ["disol", "unet"])) == [run.name]
    for change, message in (
        ("data.cases=48", r"was made with data.cases=40, now asked for 48. Choose another out"),
        ("train.batch_size=4", "train.batch_size=8, now asked for 4"),
        ("tests.all=3", "tests.all=None, now asked for 3"),
    ):
        with pytest.raises(DisolError, match=message):
            read_records(made_up_config(tmp_path, change), places, ["unet"])


def test_results_outlive_settings_that_came_later(tmp_path):
    config = made_up_config(tmp_path)
    places = Places(tmp_path, tmp_path / "work")
    run = PlannedRun(config, "unet", 0, 3e-3)
    record = made_up_record(run, [0.3])
    earlier = {name: value for name, value in run.identity["train"].items() if name != "drop_last"}
    write_record(replace(record, identity={**run.identity, "train": earlier}), places.record(run.name))
    assert read_records(config, places, ["unet"])
    with pytest.raises(DisolError, match=r"train.drop_last=True, now asked for False"):
        read_records(made_up_config(tmp_path, "train.drop_last=false"), places, ["unet"])


def test_probes_decide_the_learning_rate_of_the_second_column(tmp_path):
    config = made_up_config(tmp_path, "probes.learning_rates=[0.001, 0.003, 0.1]", "seeds=[0]")
    first, *probes = plan_runs(config, {}, ["unet"])
    assert first.name == "unet-lr0.003-seed0", "models can be compared before any probe has ended"
    assert [run.name for run in probes] == ["unet-lr0.001-probe", "unet-lr0.003-probe", "unet-lr0.1-probe"]
    assert probes[0].train_settings.epochs == 5
    records = {run.name: made_up_record(run, [loss]) for run, loss in zip(probes[:2], (0.2, 0.3), strict=True)}
    assert find_rate(config, records, "unet", "probed") is None
    records[probes[2].name] = made_up_record(probes[2], [0.1], diverged="The loss must stay finite")
    assert find_rate(config, records, "unet", "probed") == 0.001
    assert [run.name for run in plan_runs(config, records, ["unet"])][4:] == ["unet-lr0.001-seed0"]
    records[probes[1].name] = made_up_record(probes[1], [0.05])
    assert plan_runs(config, records, ["unet"]) == [first, *probes], "never made twice"
