"""Channels have names, and a kind knows all there is to know about its terms."""

import pickle

import numpy as np
import pytest
import torch

import disol
from disol._terms import DOMAIN, FORCE, INITIAL, SOURCE, SUPPORT, TIMES, ChannelLayout, Term, terms_of_kind
from disol.errors import DisolError
from disol.geometry.loops import name_loops
from disol.problems import PROBLEMS

LAYOUT = ChannelLayout("domain", "dirichlet", "source")
TERMS = {(problem.name, term.name): term for problem in PROBLEMS.values() for term in problem.terms}
FIELDS = [Term("source", SOURCE), Term("initial", INITIAL)]


def test_a_layout_is_the_tuple_of_its_names():
    assert LAYOUT == ("domain", "dirichlet", "source")
    assert pickle.loads(pickle.dumps(LAYOUT)) == LAYOUT
    assert isinstance(pickle.loads(pickle.dumps(LAYOUT)), ChannelLayout)


def test_selecting_by_name_is_selecting_by_position():
    stacked = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    assert (LAYOUT.select(stacked, "source") == stacked[:, 2]).all()
    assert torch.equal(LAYOUT.select(torch.from_numpy(stacked), "source"), torch.from_numpy(stacked[:, 2]))


def test_a_typing_error_lists_the_names():
    with pytest.raises(ValueError, match="domain, dirichlet, source"):
        LAYOUT.position("sauce")


def test_names_must_differ():
    with pytest.raises(ValueError, match="differ"):
        ChannelLayout("a", "b", "a")


def block():
    """A square with a hole, two pixels away from the edge of the grid."""
    mask = np.zeros((16, 16), bool)
    mask[2:14, 2:14] = True
    mask[6:9, 6:9] = False
    return mask


@pytest.mark.parametrize("name", TERMS)
def test_every_term_of_every_problem_is_geometry_or_a_load_or_time_and_geometry_is_stored_as_bits(name):
    kind = TERMS[name].kind
    assert [kind.is_geometry, kind.is_load, kind is TIMES].count(True) == 1
    assert (kind.storage == "bits") == kind.is_geometry == (kind.dtype is bool)
    assert (kind.storage is None) == (kind is TIMES)


@pytest.mark.parametrize("name", TERMS)
def test_the_default_of_a_term_is_a_text_that_its_kind_reads_checks_and_shows(name):
    term, loops = TERMS[name], name_loops(block())
    if term.kind is DOMAIN:
        with pytest.raises(ValueError, match="domain has no default"):
            term.kind.default(term)
        return
    value, told = term.kind.read(term, term.kind.default(term), loops)
    checked = term.kind.check(term.name, value, loops.mask)
    shown = np.asarray(term.kind.encode(checked[0] if term.kind is TIMES else checked, loops.mask), dtype=float)
    assert told
    assert shown.shape == (16, 16)
    assert shown.any()
    assert term.kind is TIMES or not shown[~loops.mask].any()
    assert isinstance(term.kind.label(term, shown), str)


def test_a_channel_is_called_after_its_term_but_times_are_shown_one_at_a_time():
    assert Term("times", TIMES).channel == "time"
    assert {term.channel for term in TERMS.values() if term.kind is not TIMES} == {
        term.name for term in TERMS.values() if term.kind is not TIMES
    }


def test_terms_are_found_by_their_kinds_in_order():
    terms = PROBLEMS["elasticity"].terms
    assert [term.name for term in terms_of_kind(terms, SUPPORT, FORCE)] == ["fix_x", "fix_y", "force_x", "force_y"]
    assert terms_of_kind(terms, TIMES) == []


@pytest.mark.parametrize("as_given", [np.asarray, torch.from_numpy])
def test_masks_are_checked_where_they_lie(as_given):
    domain = block()
    numbers = as_given(domain.astype(float))
    checked = DOMAIN.check("domain", numbers)
    assert type(checked) is type(numbers)
    assert (np.asarray(checked) == domain).all()
    support = np.zeros_like(domain)
    support[2, 2:5] = True
    assert (np.asarray(SUPPORT.check("dirichlet", as_given(1 * support), checked)) == support).all()
    with pytest.raises(ValueError, match="domain must hold only 0 and 1, got values such as 2"):
        DOMAIN.check("domain", 2 * numbers)
    with pytest.raises(ValueError, match="domain is empty"):
        DOMAIN.check("domain", 0 * numbers)
    with pytest.raises(ValueError, match="3 dirichlet pixels lie outside the domain"):
        SUPPORT.check("dirichlet", as_given(np.roll(support, -2, axis=0)), checked)
    with pytest.raises(ValueError, match=r"1 of 1 parts of the domain .* have no dirichlet pixel"):
        SUPPORT.check("dirichlet", as_given(0 * support), checked)


def test_a_force_outside_the_domain_is_refused():
    force = np.zeros((16, 16))
    force[0, 0] = -2
    with pytest.raises(ValueError, match="1 force_x pixels lie outside the domain"):
        FORCE.check("force_x", force, block())


def test_labels_say_what_marked_pixels_mean():
    forces = np.array([[0.0, 1.0], [-1.0, 0.0]])
    across, down = Term("force_x", FORCE, "x"), Term("force_y", FORCE, "y")
    assert FORCE.label(across, forces) == "force ←→ 1"
    assert FORCE.label(down, forces.clip(0)) == "force ↓ 1"
    assert FORCE.label(down, forces * [[0, 2], [1, 0]]) == "force ↑↓ several sizes"
    assert FORCE.label(across, 0 * forces) == "force  0"
    assert SUPPORT.label(Term("dirichlet", SUPPORT), forces) == "U = 0"
    assert SUPPORT.label(Term("fix_y", SUPPORT, "y"), forces) == "U_y = 0"


@pytest.mark.parametrize("term", FIELDS)
def test_a_field_may_be_a_function_values_or_both_for_the_cases_of_a_batch(term):
    domain = block()
    values = np.full(domain.shape, 0.5)
    assert (term.kind.encode(term.kind.check(term.name, values, domain), domain) == 0.5 * domain).all()
    several = term.kind.check(term.name, (lambda x, y: 0.5 + 0 * x, values), domain)
    assert (term.kind.encode(several, np.stack([domain, domain])) == 0.5 * domain).all()
    with pytest.raises(ValueError, match="NaN or infinite"):
        term.kind.check(term.name, values * np.nan, domain)


@pytest.mark.parametrize("term", FIELDS)
def test_a_named_field_is_told_with_its_formula(term):
    _, told = term.kind.read(term, "ramp", name_loops(block()))
    assert told == "ramp: x"
    assert term.kind.read(term, "x*y", name_loops(block()))[1] == "x*y"


LONG = np.longdouble
has_long_doubles = pytest.mark.skipif(
    np.finfo(LONG).max == np.finfo(float).max, reason="long doubles are doubles on this machine"
)


@has_long_doubles
@pytest.mark.parametrize("as_given", [lambda values: values, lambda values: lambda x, y: values.flat[0] + 0 * x])
@pytest.mark.parametrize(("exponent", "message"), [(4000, "overflows: .* exceeds 1.8e\\+308"), (-4000, "underflows")])
def test_what_double_precision_cannot_hold_is_called_overflow_or_underflow(as_given, exponent, message):
    domain = np.ones((4, 4), bool)
    values = np.full((4, 4), LONG(10) ** exponent)
    with pytest.raises(DisolError, match=message):
        SOURCE.encode(SOURCE.check("source", as_given(values), domain), domain)
    with pytest.raises(DisolError, match=message):
        FORCE.check("force_x", values, domain)
    held = np.zeros((4, 4))
    held[0] = 1
    with pytest.raises(DisolError, match=message):
        disol.solve_exact("poisson", domain=domain, dirichlet=held, source=as_given(values), conventions="paper")


@has_long_doubles
def test_long_doubles_within_range_are_rounded():
    given = np.full((4, 4), LONG(1) / 3)
    given[0] = 0
    checked = SOURCE.check("source", given, np.ones((4, 4), bool))
    assert checked.dtype == np.float64
    assert (checked == given.astype(float)).all()


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([1e15], "times must not exceed 1e\\+09 s, got 1e\\+15 s"),
        ([2, 10**18], "must not exceed"),
        (np.full(10**6, 2.0), "times must be at most 10000 numbers, got 1000000"),
        ([LONG(10) ** 4000], "must not exceed|finite"),
        ([2.0, np.nan], "finite and not negative"),
    ],
)
def test_times_that_would_take_for_ever_are_refused_before_any_step(times, message, monkeypatch):
    held = np.zeros((4, 4))
    held[0] = 1
    given = {"domain": np.ones((4, 4)), "dirichlet": held, "source": np.ones((4, 4)), "initial": np.ones((4, 4))}
    monkeypatch.setattr("disol.problems.problem.TransientProblem.frames", None)
    with pytest.raises(DisolError, match=message) as raised:
        disol.solve_exact("heat", **given, times=times, conventions="paper")
    assert len(str(raised.value)) < 400


def test_times_are_sorted_seconds():
    term, loops = Term("times", TIMES), name_loops(block())
    assert TIMES.read(term, "8, 2,8", loops) == ((2.0, 8.0), "2, 8 s")
    assert TIMES.check("times", [2, 0.5], loops.mask) == (2.0, 0.5)
    with pytest.raises(ValueError, match="times are seconds such as 2,8,20, got 'soon'"):
        TIMES.read(term, "soon", loops)
    for wrong, message in (([], "must be a list of numbers"), ([-1], "not negative"), ([np.inf], "must be finite")):
        with pytest.raises(ValueError, match=message):
            TIMES.check("times", wrong, loops.mask)
    for text in ("1e15", "2," * 10_000 + "x", ",".join(map(str, range(10_001)))):
        with pytest.raises(DisolError) as raised:
            TIMES.read(term, text, loops)
        assert len(str(raised.value)) < 400
