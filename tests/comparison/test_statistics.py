"""What curves and errors over runs tell, on curves whose answer is known."""

import math
from dataclasses import replace

import numpy as np
import pytest
from made_up import made_up_config, made_up_record
from scipy.stats import mannwhitneyu

from disol.comparison.plan import PlannedRun
from disol.comparison.statistics import (
    area_over_epochs,
    area_over_time,
    find_difference,
    find_last_fall,
    find_quartiles,
    first_below,
    least_p_value,
    loss_at,
    quartile_curves,
)
from disol.comparison.summary import compare_runs, list_rows


def test_models_whose_runs_do_not_overlap_differ_as_much_as_they_can():
    found = find_difference([1, 2, 3, 4, 5], [6, 7, 8, 9, 10])
    assert found.effect == 1
    assert found.p_value == pytest.approx(2 / math.comb(10, 5))  # the most extreme of all orders, on either side
    assert find_difference([6, 7, 8, 9, 10], [1, 2, 3, 4, 5]).effect == -1


def test_the_same_runs_do_not_differ():
    found = find_difference([1, 2, 3, 4], [1, 2, 3, 4])
    assert found.effect == 0
    assert found.p_value == pytest.approx(1)


def test_no_p_value_of_few_runs_is_below_that_of_the_most_extreme_order():
    never = [math.inf] * 3
    assert find_difference([3, 3, 4], never).p_value == pytest.approx(least_p_value(3, 3)) == pytest.approx(0.1)
    assert find_difference([3, 4], [4, 5]).p_value == pytest.approx(4 / 6)  # of six orders, four are as far apart


@pytest.mark.parametrize("sizes", [(3, 4), (5, 5), (8, 8)])
def test_p_values_of_different_numbers_are_those_of_scipy(sizes):
    x, y = (np.random.default_rng(seed).normal(seed, 1, size) for seed, size in enumerate(sizes))
    expected = mannwhitneyu(x, y, alternative="two-sided", method="exact")
    assert find_difference(x, y).p_value == pytest.approx(expected.pvalue)


def test_the_effect_counts_pairs():
    assert find_difference([1, 4], [2, 3]).effect == 0
    assert find_difference([1, 1, 9], [2, 3]).effect == pytest.approx((4 - 2) / 6)


def test_runs_that_never_get_to_a_threshold_count_as_the_worst():
    found = find_difference([3, 4, 5, math.inf], [6, math.inf, math.inf, math.inf])
    assert found.effect == pytest.approx((3 * 4 - 1) / 16)  # three against four, one against one; ties count for none
    assert (found.first.median, found.second.median) == (4.5, math.inf)
    assert found.second.low == math.inf


def test_quartiles_lie_between_runs():
    found = find_quartiles([1, 2, 3, 4, 5])
    assert (found.low, found.median, found.high, found.count) == (2, 3, 4, 5)
    assert find_quartiles([1, 2]).median == 1.5


def test_areas_of_straight_lines():
    assert area_over_epochs(np.array([4.0, 3.0, 2.0])) == 6
    losses, seconds = np.array([4.0, 2.0, 1.0]), np.array([10.0, 20.0, 30.0])
    assert area_over_time(losses, seconds, 10, 30) == 10 * 4 + 10 * 2
    assert area_over_time(losses, seconds, 15, 35) == 5 * 4 + 10 * 2 + 5 * 1
    assert loss_at(losses, seconds, np.array([9.0, 10.0, 29.0, 99.0])).tolist() == [math.inf, 4, 2, 1]


def test_the_way_to_a_threshold_ends_where_it_is_reached_first():
    losses = np.array([4.0, 2.0, 3.0, 1.0])
    assert first_below(losses, np.array([1.0, 2.0, 3.0, 4.0]), 2.0) == 2
    assert first_below(losses, np.array([1.0, 2.0, 3.0, 4.0]), 0.5) == math.inf


def test_a_curve_has_flattened_if_its_best_loss_no_longer_falls():
    flat = np.array([1.0] * 8 + [0.99, 1.0])
    assert find_last_fall(flat) == pytest.approx(0.01)
    falling = np.geomspace(1, 0.01, 10)
    assert find_last_fall(falling) == pytest.approx(1 - 0.01 / falling[7])
    assert find_last_fall(np.array([1.0, 2.0])) == 0


def test_quartiles_of_curves_are_taken_where_all_have_epochs():
    found = quartile_curves([np.array([1.0, 2.0, 9.0]), np.array([3.0, 4.0]), np.array([5.0, 6.0])])
    np.testing.assert_array_equal(found, [[2, 3], [3, 4], [4, 5]])


def test_two_models_are_compared_at_equal_epochs_and_at_equal_time(tmp_path):
    config = made_up_config(tmp_path)
    records = {}
    for seed in config.seeds:
        quick = PlannedRun(config, "disol", seed, 3e-3)
        slow = PlannedRun(config, "unet", seed, 3e-3)
        # Over epochs the second is better by a factor of two, but each of its epochs takes four times as long.
        records[quick.name] = made_up_record(quick, [1.0, 0.8, 0.4, 0.2 + seed / 100], pace=1, error=0.1 + seed / 100)
        records[slow.name] = made_up_record(slow, [0.5, 0.4, 0.2, 0.1 + seed / 100], pace=2, error=0.3 + seed / 100)
    found = compare_runs(config, list_rows(config, records))["unet"]
    assert list(found)[:3] == ["best validation loss in 4 epochs", "epochs to 0.25", "area under the curve of 4 epochs"]
    best = found["best validation loss in 4 epochs"]
    assert best.effect == -1
    assert (best.first.median, best.second.median) == (pytest.approx(0.215), pytest.approx(0.115))
    assert (found["epochs to 0.25"].first.median, found["epochs to 0.25"].second.median) == (4, 3)
    assert found["area under the curve of 4 epochs"].second.median == pytest.approx(0.25 + 0.4 + 0.2 + 0.115 / 2)
    timed = found["best validation loss in 4 s"]  # all that the first has, and half of the second
    assert (timed.first.median, timed.second.median) == (pytest.approx(0.215), 0.4)
    assert timed.effect == 1
    assert (found["seconds to 0.25"].first.median, found["seconds to 0.25"].second.median) == (4, math.inf)
    assert found["area under the curve from 2 to 4 s"].first.median == pytest.approx(0.8 + 0.4)
    assert found["area under the curve from 2 to 4 s"].second.median == pytest.approx(2 * 0.5)
    assert found["rel_l1 of shapes"].effect == 1
    assert found["rel_l2 of id"].p_value == pytest.approx(2 / math.comb(8, 4))


def test_a_run_that_diverged_is_worse_than_all_others(tmp_path):
    config = made_up_config(tmp_path)
    records = {}
    for seed in config.seeds:
        for label, loss in (("disol", 0.1), ("unet", 0.2)):
            run = PlannedRun(config, label, seed, 3e-3)
            records[run.name] = made_up_record(run, [1.0, loss + seed / 100], error=loss)
            if label == "disol" and seed < 2:
                made = made_up_record(run, [1.0], diverged="the loss must stay finite")
                records[run.name] = replace(made, tests={}, inference=0.0)
    first, second = list_rows(config, records)
    assert (first.num_diverged, second.num_diverged) == (2, 0)
    assert (first.median("inference"), first.median("seconds")) == (1e-4, 2.0), "of the runs that came to their end"
    found = compare_runs(config, [first, second])["unet"]
    for name in ("best validation loss in 2 epochs", "rel_l2 of id"):
        assert found[name].first.count == 4
        assert found[name].first.high == math.inf
        assert found[name].effect == 0, "better than all in half of the runs, and worse in the other"


def test_only_tests_that_both_predict_a_case_of_are_compared(tmp_path):
    config = made_up_config(tmp_path)
    records = {}
    for seed in config.seeds:
        for label, refused in (("disol", 6), ("unet", 0)):
            run = PlannedRun(config, label, seed, 3e-3)
            records[run.name] = made_up_record(run, [1.0, 0.5], refused=refused)
    found = compare_runs(config, list_rows(config, records))["unet"]
    assert {name for name in found if name.startswith("rel_l2")} == {"rel_l2 of shapes"}


def test_errors_are_compared_on_the_cases_that_both_predict(tmp_path):
    config = made_up_config(tmp_path)
    records = {}
    for seed in config.seeds:
        for label, refused in (("disol", 0), ("unet", 4)):
            run = PlannedRun(config, label, seed, 3e-3)
            records[run.name] = made_up_record(run, [1.0, 0.5], error=0.3, refused=refused)
            if label == "disol":  # is better on the cases that the other one predicts
                for test in records[run.name].tests.values():
                    test.errors["rel_l2"][: len(test.index) - 4] = 0.2
    found = compare_runs(config, list_rows(config, records))["unet"]["rel_l2 of id"]
    assert (found.first.median, found.second.median, found.effect) == (pytest.approx(0.2), pytest.approx(0.3), 1)


def test_few_runs_are_not_compared(tmp_path):
    config = made_up_config(tmp_path, "seeds=[0, 1]")
    runs = [PlannedRun(config, label, seed, 3e-3) for label in ("disol", "unet") for seed in (0, 1)]
    assert compare_runs(config, list_rows(config, {run.name: made_up_record(run, [1.0, 0.5]) for run in runs})) == {}
