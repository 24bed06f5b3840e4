"""A batch of arrays is read and solved at once, and is what its cases are one by one."""

from dataclasses import dataclass

import numpy as np
import pytest
from exact_engine import exact_model, own_terms, wavy

import disol
from disol.inference import block, request
from disol.inference.request import read_request
from disol.problems import Posed
from disol.problems.scalar import ScalarProblem

EVERY_PROBLEM = [
    *((problem, conventions) for problem in disol.PROBLEMS for conventions in ("paper", "published")),
]
EVERY_PROBLEM.remove(("heat", "published"))
LOADS = ("source", "initial", "force_x", "force_y")


def batch_of(problem, signs=(1.0, 0.0, -2.0, 0.5), resolution=32):
    """Cases with loads of both signs, of none, of one sign, and nearly of one sign."""
    rows = [own_terms(problem, index, resolution, sign) for index, sign in enumerate(signs)]
    for name in set(LOADS[:2]) & set(rows[0]):
        rows[2][name] = -np.abs(rows[2][name])
        rows[3][name] = np.abs(rows[3][name]) - 0.2
    shared = {name: rows[0].pop(name) for name in ("times",) if name in rows[0]}
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]}, shared


def singles(batch, shared):
    return [{name: array[number] for name, array in batch.items()} | shared for number in range(len(batch["domain"]))]


def require_equal(together, alone):
    for name in ("field", "exact", "pattern", "amplitude", "error"):
        found, expected = np.asarray(getattr(together, name)), np.asarray(getattr(alone, name))
        # An error is the difference of two fields, so it is known to the rounding errors of those.
        size = 1.0 if name == "error" else np.abs(expected).max()
        assert np.abs(found - expected).max() <= 1e-12 * size, name
    assert np.array_equal(together.inputs, alone.inputs)
    assert np.array_equal(together.domain, alone.domain)
    assert together.times == alone.times


@pytest.mark.parametrize(("problem", "conventions"), EVERY_PROBLEM)
def test_a_batch_of_arrays_is_a_loop_of_single_cases_to_rounding(tmp_path, monkeypatch, problem, conventions):
    model, (batch, shared) = exact_model(tmp_path, problem, conventions, error=wavy), batch_of(problem)
    alone = [model.solve(**case) for case in singles(batch, shared)]
    monkeypatch.setattr(request, "read_case", None)  # no case is read by itself
    for pixels in (block.MOST_PIXELS, 2 * 32 * 32):
        monkeypatch.setattr(block, "MOST_PIXELS", pixels)
        for together, single in zip(model.solve(**batch, **shared), alone, strict=True):
            require_equal(together, single)


@pytest.mark.parametrize(("problem", "conventions"), EVERY_PROBLEM)
def test_shared_terms_are_those_of_every_case(tmp_path, monkeypatch, problem, conventions):
    model, (batch, shared) = exact_model(tmp_path, problem, conventions, error=wavy), batch_of(problem)
    domain_and_markers = {name: array[0] for name, array in batch.items() if name not in LOADS}
    signs = np.array([1.0, -1.0, 3.0])[:, None, None]
    loads = {name: signs * array[0] for name, array in batch.items() if name in LOADS}
    alone = [
        model.solve(**domain_and_markers, **{name: load[number] for name, load in loads.items()}, **shared)
        for number in range(3)
    ]
    monkeypatch.setattr(request, "read_case", None)
    for together, single in zip(model.solve(**domain_and_markers, **loads, **shared), alone, strict=True):
        require_equal(together, single)


@pytest.mark.parametrize("kind", [bool, np.int64, np.float32, "list"])
def test_masks_are_read_in_any_type(tmp_path, kind):
    model, (batch, _) = exact_model(tmp_path, "poisson"), batch_of("poisson")
    converted = {
        name: array.tolist() if kind == "list" else array.astype(kind)
        for name, array in batch.items()
        if name != "source"
    }
    assert np.array_equal(model.solve(**batch | converted).field, model.solve(**batch).field)


def wrong_batches():
    batch, _ = batch_of("poisson")
    for name, value, changed in (
        ("empty domain", 0.0, "domain"),
        ("grey domain", 0.5, "domain"),
        ("nan in domain", np.nan, "domain"),
        ("nothing pinned", 0.0, "dirichlet"),
        ("pinned outside", 1.0, "dirichlet"),
        ("nan in source", np.nan, "source"),
        ("too large a source", 1e39, "source"),
    ):
        wrong = batch[changed].astype(float)
        wrong[2] = value
        yield pytest.param(batch | {changed: wrong}, 2, id=name)
    everywhere = np.ones((32, 32))
    pinned = {name: np.where(np.arange(4)[:, None, None] == 1, everywhere, batch[name]) for name in batch}
    yield pytest.param(pinned | {"source": batch["source"]}, 1, id="all pinned, no load")
    pinned = {name: np.where(np.arange(4)[:, None, None] == 0, everywhere, batch[name]) for name in batch}
    yield pytest.param(pinned, 0, id="all pinned")
    island = batch["domain"].astype(float)
    island[3, :3, :3] = [[0, 0, 0], [0, 1, 0], [0, 0, 0]]
    island[3, 3, :4] = island[3, :4, 3] = 0
    yield pytest.param(batch | {"domain": island}, 3, id="a part that is not held")


@pytest.mark.parametrize(("batch", "number"), list(wrong_batches()))
def test_a_wrong_case_says_what_it_would_say_alone(tmp_path, batch, number):
    model = exact_model(tmp_path, "poisson")
    with pytest.raises(ValueError) as alone:  # noqa: PT011  the texts are compared
        model.solve(**{name: array[number] for name, array in batch.items()})
    with pytest.raises(ValueError) as together:  # noqa: PT011
        model.solve(**batch)
    assert str(together.value) == f"Case {number}: {alone.value}"


@pytest.mark.parametrize("name", ["fix_y", "force_x"])
def test_a_wrong_case_of_elasticity_is_named(tmp_path, name):
    model, (batch, _) = exact_model(tmp_path, "elasticity"), batch_of("elasticity")
    batch[name] = batch[name].astype(float)
    batch[name][3] = 1.0
    with pytest.raises(ValueError, match=rf"Case 3: \d+ {name} pixels lie outside the domain"):
        model.solve(**batch)


def test_what_is_shared_can_be_wrong_too(tmp_path):
    model, (batch, shared) = exact_model(tmp_path, "heat"), batch_of("heat")
    with pytest.raises(ValueError, match="Case 0: times must be multiples"):
        model.solve(**batch, times=[3])
    with pytest.raises(ValueError, match="Case 0: source must have the domain's shape"):
        model.solve(**batch | {"source": np.ones((8, 8))}, **shared)
    with pytest.raises(ValueError, match="Case 0: heat has no 'colour'"):
        model.solve(**batch, colour=1)


def test_a_single_case_has_no_batch_axis(tmp_path):
    batch, _ = batch_of("poisson")
    with pytest.raises(ValueError, match=r"domain must be an array \[height, width\], got shape \(4, 32, 32\)"):
        disol.solve_exact("poisson", **batch)


@dataclass(frozen=True)
class OneByOne(ScalarProblem):
    """A problem of one's own that has been written for single cases."""

    def system(self, terms, conventions, element):
        assert terms["domain"].ndim == 2
        return super().system(terms, conventions, element)


def test_methods_of_ones_own_get_single_cases_unless_they_ask_for_batches():
    own = OneByOne("own", "−ΔU = f", resolution=32, num_cases=1)
    batch, _ = batch_of("poisson")
    assert [len(each) for each in read_request(own, "paper", None, batch).blocks] == [1] * 4
    assert [len(each) for each in read_request(disol.PROBLEMS["poisson"], "paper", None, batch).blocks] == [4]
    assert not OneByOne.takes_batches

    class Both(OneByOne):
        takes_batches = True

        def encode(self, terms, conventions):
            return super().encode(terms, conventions)

    class Neither(Both):
        pass

    assert Both.takes_batches
    assert Neither.takes_batches


def test_blocks_are_cut_between_cases():
    batch, _ = batch_of("poisson")
    whole = read_request(disol.PROBLEMS["poisson"], "paper", None, batch).blocks[0]
    pieces = list(whole.pieces(2))
    assert [len(piece.parts) for piece in pieces] == [2, 2]  # of both signs and of none; of one sign each
    assert [len(piece) for piece in pieces] == [2, 2]
    assert isinstance(pieces[1].posed, Posed)
    assert pieces[1].parts.owner.tolist() == [0, 1]
    assert np.array_equal(pieces[1].domain, whole.domain[2:])
