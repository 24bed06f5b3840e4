"""Metrics are what their equations say, whatever the fields are."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from disol.evaluation.metrics import (
    METRICS,
    coverage,
    grid_mae,
    measure_amplitudes,
    measure_patterns,
    ratio,
    relative_l1,
    relative_l2,
)
from disol.evaluation.results import correlate, summarise

SHAPE = (3, 2, 4, 5)
RELATIVE = ("rel_l2", "rel_l1")
ON_THE_DOMAIN = ("rel_l2", "rel_l1", "mae", "max_error")

# Tenths, so that a difference is either 0 or far from it.
fields = npst.arrays(np.float32, SHAPE, elements=st.integers(-9, 9).map(lambda tenths: tenths / 10))
domains = npst.arrays(bool, (3, 1, 4, 5))


def tensors(*arrays):
    return [torch.from_numpy(array) for array in arrays]


def loop(prediction, reference, domain):
    """Every metric of one case, pixel by pixel."""
    pairs = [
        (float(prediction[index]), float(reference[index]))
        for index in np.ndindex(*prediction.shape)
        if domain[0, *index[1:]]
    ]
    everywhere = [abs(float(prediction[index]) - float(reference[index])) for index in np.ndindex(*prediction.shape)]
    errors = [abs(found - expected) for found, expected in pairs]
    sizes = [abs(expected) for _, expected in pairs]

    def relative(error, size):
        return error / size if size > 0 else float(error > 0)

    return {
        "rel_l2": relative(sum(e**2 for e in errors) ** 0.5, sum(s**2 for s in sizes) ** 0.5),
        "rel_l1": relative(sum(errors), sum(sizes)),
        "mae": sum(errors) / len(errors) if errors else 0.0,
        "max_error": max(errors, default=0.0),
        "grid_mae": sum(everywhere) / len(everywhere),
    }


@settings(max_examples=40)
@given(fields, fields, domains)
def test_metrics_agree_with_a_loop_over_pixels(prediction, reference, domain):
    for name, metric in METRICS.items():
        expected = [loop(*case)[name] for case in zip(prediction, reference, domain, strict=True)]
        assert metric(*tensors(prediction, reference, domain)).tolist() == pytest.approx(expected, rel=1e-12, abs=1e-12)


@settings(max_examples=40)
@given(fields, fields, domains)
def test_an_error_is_zero_exactly_where_the_fields_agree_on_the_domain(prediction, reference, domain):
    equal = ((prediction == reference) | ~domain).all(axis=(1, 2, 3))
    for name in ON_THE_DOMAIN:
        error = METRICS[name](*tensors(prediction, reference, domain))
        assert ((error == 0).numpy() == equal).all()
        assert (error >= 0).all()


@settings(max_examples=40)
@given(fields, fields, domains, st.floats(0.01, 100.0), st.sampled_from([-1.0, 1.0]))
def test_relative_errors_do_not_depend_on_the_unit(prediction, reference, domain, size, sign):
    prediction, reference, domain = tensors(prediction.astype(float), reference.astype(float), domain)
    for name in RELATIVE:
        scaled = METRICS[name](sign * size * prediction, sign * size * reference, domain)
        torch.testing.assert_close(scaled, METRICS[name](prediction, reference, domain), rtol=1e-9, atol=0)


@settings(max_examples=40)
@given(fields, fields, fields, domains)
def test_only_grid_mae_sees_what_lies_outside_the_domain(prediction, reference, other, domain):
    elsewhere = np.where(domain, prediction, other)
    for name in ON_THE_DOMAIN:
        metric = METRICS[name]
        assert torch.equal(
            metric(*tensors(prediction, reference, domain)), metric(*tensors(elsewhere, reference, domain))
        )
    broken = np.where(domain, prediction, np.nan).astype(np.float32)
    assert torch.equal(
        relative_l2(*tensors(broken, reference, domain)), relative_l2(*tensors(prediction, reference, domain))
    )


@settings(max_examples=40)
@given(fields, fields, domains)
def test_grid_mae_of_projected_fields_is_coverage_times_mae(prediction, reference, domain):
    prediction, reference, domain = tensors(prediction * domain, reference * domain, domain)
    expected = coverage(domain) * METRICS["mae"](prediction, reference, domain)
    torch.testing.assert_close(grid_mae(prediction, reference, domain), expected, rtol=1e-12, atol=1e-15)


@settings(max_examples=40)
@given(fields, fields, domains)
def test_a_case_does_not_see_the_others_of_its_batch(prediction, reference, domain):
    together = measure_patterns(*tensors(prediction, reference, domain), ("u_x", "u_y"))
    for case in range(SHAPE[0]):
        part = slice(case, case + 1)
        alone = measure_patterns(*tensors(prediction[part], reference[part], domain[part]), ("u_x", "u_y"))
        for name, values in together.items():
            torch.testing.assert_close(alone[name], values[part], rtol=1e-12, atol=0)


@settings(max_examples=40)
@given(fields, fields, domains)
def test_components_make_up_the_joint_errors(prediction, reference, domain):
    found = measure_patterns(*tensors(prediction, reference, domain), ("u_x", "u_y"))
    for name in ("mae", "grid_mae"):
        torch.testing.assert_close(found[name], (found[f"{name}_u_x"] + found[f"{name}_u_y"]) / 2)
    assert torch.equal(found["max_error"], torch.maximum(found["max_error_u_x"], found["max_error_u_y"]))
    sizes = [(reference[:, position] * domain[:, 0]).astype(float) for position in (0, 1)]
    squares = sum(
        found[f"rel_l2_{name}"].numpy() ** 2 * (size**2).sum((1, 2))
        for name, size in zip(("u_x", "u_y"), sizes, strict=True)
    )
    whole = sum((size**2).sum((1, 2)) for size in sizes)
    nonzero = np.logical_and(*[(size != 0).any((1, 2)) for size in sizes])
    assert (found["rel_l2"].numpy() ** 2 * whole)[nonzero] == pytest.approx(squares[nonzero])


def test_a_scalar_field_has_no_components():
    field, domain = torch.rand(2, 1, 4, 4), torch.ones(2, 1, 4, 4, dtype=torch.bool)
    assert list(measure_patterns(field, field, domain, ("u",))) == list(METRICS)


def test_a_zero_reference_gives_zero_or_one_and_never_nan():
    zero, domain = torch.zeros(2, 1, 4, 4), torch.ones(2, 1, 4, 4, dtype=torch.bool)
    prediction = zero.clone()
    prediction[1] = 1e-30
    for metric in (relative_l2, relative_l1):
        assert metric(prediction, zero, domain).tolist() == [0, 1]


def test_amplitude_errors_are_those_of_the_logarithm_and_of_the_ratio():
    true = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64)
    found = measure_amplitudes((true * torch.tensor([1.0, 1.5, 0.5])).log().float(), true)
    assert found["rel_amplitude_error"].tolist() == pytest.approx([0, 0.5, 0.5], abs=1e-6)
    assert found["squared_log_error"].tolist() == pytest.approx([0, np.log(1.5) ** 2, np.log(2) ** 2], abs=1e-6)
    components = torch.stack([true, true / 3], dim=1)
    assert torch.equal(measure_amplitudes(true.log(), components)["log_amplitude"], true.log())


@settings(max_examples=40)
@given(npst.arrays(np.float64, st.integers(1, 30), elements=st.floats(0, 1e3)), st.randoms())
def test_a_summary_does_not_depend_on_the_order_of_cases(values, random):
    summary = summarise(values)
    shuffled = values.tolist()
    random.shuffle(shuffled)
    assert summary.count == len(values)
    assert summary.mean == pytest.approx(sum(shuffled) / len(shuffled))
    assert (summary.median, summary.p95) == (summarise(shuffled).median, summarise(shuffled).p95)
    assert min(shuffled) <= summary.median <= summary.p95 <= max(shuffled)


def test_a_summary_of_the_numbers_to_100_is_known():
    summary = summarise(np.arange(101.0))
    assert (summary.count, summary.mean, summary.median, summary.p95) == (101, 50, 50, 95)
    with pytest.raises(ValueError, match="one case or more, got none"):
        summarise([])


def test_correlation_is_one_along_a_line_and_zero_where_nothing_varies():
    values = np.array([1.0, 2.0, 5.0])
    assert correlate(3 * values - 1, values) == pytest.approx(1)
    assert correlate(-values, values) == pytest.approx(-1)
    assert correlate(np.ones(3), values) == 0


def test_a_ratio_is_0_or_1_without_a_size_and_no_number_where_it_has_none():
    error, size = torch.tensor([0.0, 3.0, 1.0, torch.nan, 1.0]), torch.tensor([0.0, 0.0, 2.0, 0.0, torch.nan])
    expected = torch.tensor([0.0, 1.0, 0.5, torch.nan, torch.nan])
    torch.testing.assert_close(ratio(error, size), expected, equal_nan=True)
