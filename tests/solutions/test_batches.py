"""A batch is what its cases are one by one: arrays, functions, drawn cases, here and on a torch device."""

import numpy as np
import pytest
import torch

import disol
from disol._arrays import to_numpy
from disol.cases import Case
from disol.solutions.solve import COPIES, cases_at_once, solve_case, solve_here, solve_there
from disol.solvers.memory import USABLE

SIDE = 24
CPU = torch.device("cpu")  # as a device, a stand-in for a GPU: the same code runs there
EVERY_PROBLEM = [
    (name, conventions) for name, problem in disol.PROBLEMS.items() for conventions in problem.known_conventions
]
LOADS = ("source", "initial", "force_x", "force_y")


def own_terms(problem: str, index: int = 0) -> dict:
    """Terms of a drawn case as a user would give them: every source one value per pixel, of any size and sign."""
    case = disol.draw(problem, 5, index, resolution=SIDE, conventions="paper")
    x, y = np.meshgrid(np.arange(SIDE) + 0.5, np.arange(SIDE) + 0.5)
    own = {
        "source": (index - 1) * 40 * np.sin(x / 5) * np.cos(y / 7),
        "initial": 15 * np.cos(x / 6 - index),
        **{name: (index + 1) * case.terms.get(name, 0) for name in ("force_x", "force_y")},
        "times": [0, 2, 14, 26],
    }
    return {name: own.get(name, value) for name, value in case.terms.items()}


def batch_of(problem: str, count: int = 3) -> tuple[dict, dict]:
    """Arrays with a batch axis, and what all cases share."""
    rows = [own_terms(problem, index) for index in range(count)]
    shared = {name: value for name, value in rows[0].items() if name == "times"}
    return {name: np.stack([row[name] for row in rows]) for name in rows[0] if name not in shared}, shared


def singles(batch: dict, shared: dict) -> list[dict]:
    return [{name: array[number] for name, array in batch.items()} | shared for number in range(len(batch["domain"]))]


def require_equal(together, alone, tolerance=1e-12):
    for name in ("field", "nodes", "pattern", "amplitude"):
        found, expected = np.asarray(getattr(together, name)), np.asarray(getattr(alone, name))
        assert found.shape == expected.shape, name
        assert np.abs(found - expected).max() <= tolerance * np.abs(expected).max(), name
    assert type(together.amplitude) is type(alone.amplitude)
    assert np.array_equal(together.case.inputs, alone.case.inputs)
    assert np.array_equal(together.domain, alone.domain)
    assert together.times == alone.times


@pytest.mark.parametrize(("problem", "conventions"), EVERY_PROBLEM)
def test_a_batch_of_arrays_is_a_loop_of_single_cases_to_rounding(problem, conventions):
    batch, shared = batch_of(problem)
    together = disol.solve_exact(problem, conventions=conventions, **batch, **shared)
    assert len(together) == 3
    for single, own in zip(together, singles(batch, shared), strict=True):
        require_equal(single, disol.solve_exact(problem, conventions=conventions, **own))


@pytest.mark.parametrize("element", ["q1", "p1"])
def test_elements_are_those_of_single_cases(element):
    batch, shared = batch_of("elasticity")
    together = disol.solve_exact("elasticity", element=element, **batch, **shared, conventions="paper")
    for single, own in zip(together, singles(batch, shared), strict=True):
        require_equal(single, disol.solve_exact("elasticity", element=element, **own, conventions="paper"))


@pytest.mark.parametrize(("problem", "conventions"), EVERY_PROBLEM)
def test_terms_without_a_batch_axis_are_those_of_every_case(problem, conventions):
    batch, shared = batch_of(problem)
    markers = {name: array[0] for name, array in batch.items() if name not in LOADS}
    signs = np.array([1.0, -1.0, 3.0])[:, None, None]
    loads = {name: signs * array[0] for name, array in batch.items() if name in LOADS}
    together = disol.solve_exact(problem, conventions=conventions, **markers, **loads, **shared)
    for number, single in enumerate(together):
        own = {name: load[number] for name, load in loads.items()}
        require_equal(single, disol.solve_exact(problem, conventions=conventions, **markers, **own, **shared))


@pytest.mark.parametrize(
    ("problem", "conventions"), [(name, rules) for name, rules in EVERY_PROBLEM if name != "elasticity"]
)
def test_a_list_of_functions_and_arrays_is_a_loop_of_single_cases(problem, conventions):
    batch, shared = batch_of(problem)
    batch["source"] = [lambda x, y: x - y, np.ones((SIDE, SIDE)), lambda x, y: np.sin(9 * x) * y]
    together = disol.solve_exact(problem, conventions=conventions, **batch, **shared)
    for single, own in zip(together, singles(batch, shared), strict=True):
        require_equal(single, disol.solve_exact(problem, conventions=conventions, **own))
    common = disol.solve_exact(problem, conventions=conventions, **batch | {"source": batch["source"][0]}, **shared)
    require_equal(common[0], together[0])


@pytest.mark.parametrize(("problem", "conventions"), EVERY_PROBLEM)
def test_a_list_of_drawn_cases_is_a_loop_of_them(problem, conventions):
    times = {} if not disol.PROBLEMS[problem].times else {"times": [2, 10]}
    drawn = [disol.draw(problem, 1, index, resolution=SIDE, conventions=conventions) for index in range(3)]
    cases = [Case.from_arrays(case, **times) for case in drawn] if times else drawn
    for single, case in zip(disol.solve_exact(cases), cases, strict=True):
        require_equal(single, disol.solve_exact(case))


@pytest.mark.parametrize(("problem", "conventions"), EVERY_PROBLEM)
def test_a_batch_on_a_device_is_the_batch_here(problem, conventions):
    batch, shared = batch_of(problem)
    here = Case.from_arrays(problem, conventions=conventions, **batch, **shared)
    there = Case.from_arrays(problem, conventions=conventions, device=CPU, **batch, **shared)
    placed = there.on(CPU)
    assert torch.is_tensor(placed.domain)
    assert all(torch.is_tensor(placed.terms[name]) for name in batch)
    assert np.array_equal(to_numpy(placed.inputs), here.inputs)
    for name in batch:
        assert there.terms[name].dtype == here.terms[name].dtype
        assert np.array_equal(there.terms[name], here.terms[name])
    expected = solve_here(here)
    for case in (there, here):  # checked there, and taken there when it is solved
        found = solve_there(case, CPU)
        assert torch.is_tensor(found.field)
        for single, alone in zip(found.to_numpy(), expected, strict=True):
            require_equal(single, alone)


@pytest.mark.parametrize("problem", ["poisson", "elasticity", "heat"])
def test_one_case_and_functions_are_solved_on_a_device_too(problem):
    drawn = disol.draw(problem, 3, resolution=SIDE, conventions="paper")
    require_equal(solve_there(drawn, CPU).to_numpy(), disol.solve_exact(drawn))
    batch = Case.stack([drawn, drawn])
    for single in solve_there(batch, CPU).to_numpy():
        require_equal(single, disol.solve_exact(drawn))


@pytest.mark.parametrize("problem", ["poisson", "elasticity", "heat"])
@pytest.mark.parametrize("at_once", [1, 2])
def test_the_size_of_a_piece_changes_nothing(monkeypatch, problem, at_once):
    batch, shared = batch_of(problem)
    case = Case.from_arrays(problem, device=CPU, **batch, **shared, conventions="paper")
    whole = solve_case(case, CPU, at_any_size=True)
    monkeypatch.setattr("disol.solutions.solve.cases_at_once", lambda case, gpu: at_once)
    pieces = solve_case(case, CPU, at_any_size=True)
    assert isinstance(pieces.field, np.ndarray)
    assert pieces.case is case
    for single, alone in zip(pieces, whole, strict=True):
        require_equal(single, alone)


@pytest.mark.parametrize("problem", ["poisson", "elasticity", "heat"])
def test_the_cases_solved_at_once_fit_into_memory(monkeypatch, problem):
    free, frames = 2**23, {"poisson": 1, "elasticity": 2, "heat": 12}[problem]  # heat: 0 to 20 s, and 26 s
    monkeypatch.setattr("disol.solvers.memory.free_bytes_of_host", lambda: free)
    at_once = cases_at_once(Case.from_arrays(problem, **own_terms(problem), conventions="paper"), CPU)
    size = COPIES * frames * 8 * (SIDE + 1) ** 2
    assert at_once > 1
    assert at_once == 32 or size * at_once <= USABLE * free < size * (at_once + 1)


@pytest.mark.parametrize("kind", [bool, np.int64, np.float32, "list", "tensor"])
def test_masks_are_read_in_any_type(kind):
    batch, _ = batch_of("poisson")
    read = {"list": np.ndarray.tolist, "tensor": torch.from_numpy}.get(kind, lambda array: array.astype(kind))
    converted = {name: read(array) for name, array in batch.items() if name != "source"}
    expected = disol.solve_exact("poisson", **batch, conventions="paper").field
    assert np.array_equal(disol.solve_exact("poisson", **batch | converted, conventions="paper").field, expected)


def wrong_batches():
    batch, _ = batch_of("poisson", 4)
    for name, value, changed in (
        ("empty domain", 0.0, "domain"),
        ("grey domain", 0.5, "domain"),
        ("nan in domain", np.nan, "domain"),
        ("nothing pinned", 0.0, "dirichlet"),
        ("pinned outside", 1.0, "dirichlet"),
        ("nan in source", np.nan, "source"),
    ):
        wrong = batch[changed].astype(float)
        wrong[2] = value
        yield pytest.param(batch | {changed: wrong}, 2, id=name)
    everywhere = np.ones((SIDE, SIDE))
    pinned = {name: np.where(np.arange(4)[:, None, None] == 1, everywhere, batch[name]) for name in batch}
    yield pytest.param(pinned | {"source": batch["source"]}, 1, id="all pinned")
    island = batch["domain"].astype(float)
    island[3, :3, :3] = [[0, 0, 0], [0, 1, 0], [0, 0, 0]]
    island[3, 3, :4] = island[3, :4, 3] = 0
    yield pytest.param(batch | {"domain": island}, 3, id="a part that is not held")
    functions = [lambda x, y: x, lambda x, y: x.nothing, np.ones((SIDE, SIDE)), lambda x, y: y]
    yield pytest.param(batch | {"source": functions}, 1, id="a function that fails")
    yield pytest.param(
        batch | {"source": [*functions[2:], functions[0], np.ones(3)]}, 3, id="a source of another shape"
    )


@pytest.mark.parametrize("device", [None, CPU], ids=["here", "there"])
@pytest.mark.parametrize(("batch", "number"), list(wrong_batches()))
def test_a_wrong_case_says_what_it_would_say_alone(batch, number, device):
    def solve(data):
        return solve_case(
            Case.from_arrays("poisson", device=device, **data, conventions="paper"), device, at_any_size=True
        )

    with pytest.raises(disol.DisolError) as alone:
        solve({name: values[number] for name, values in batch.items()})
    with pytest.raises(disol.DisolError) as together:
        solve(batch)
    assert str(together.value) == f"Case {number}: {alone.value}"


@pytest.mark.parametrize("name", ["fix_y", "force_x"])
def test_a_wrong_case_of_elasticity_is_named(name):
    batch, _ = batch_of("elasticity")
    batch[name] = batch[name].astype(float)
    batch[name][2] = 1.0
    with pytest.raises(disol.DisolError, match=rf"Case 2: \d+ {name} pixels lie outside the domain"):
        disol.solve_exact("elasticity", **batch, conventions="paper")


def test_what_is_shared_can_be_wrong_too():
    batch, shared = batch_of("heat")
    with pytest.raises(disol.DisolError, match="Case 0: times must be multiples"):
        disol.solve_exact("heat", **batch, times=[3], conventions="paper")
    with pytest.raises(disol.DisolError, match="Case 0: source must have the domain's shape"):
        disol.solve_exact("heat", **batch | {"source": np.ones((8, 8))}, **shared, conventions="paper")
    with pytest.raises(disol.DisolError, match="heat has no 'colour'"):
        disol.solve_exact("heat", **batch, colour=1, conventions="paper")


def test_batches_of_different_lengths_are_refused():
    terms = own_terms("poisson")
    batch = {"domain": np.stack([terms["domain"]] * 2), "source": np.ones((3, SIDE, SIDE))}
    with pytest.raises(disol.DisolError, match=r"equally many cases.*2 of domain, 3 of source"):
        disol.solve_exact("poisson", **terms | batch, conventions="paper")
    with pytest.raises(disol.DisolError, match="at least one, got 0 of source"):
        disol.solve_exact("poisson", **terms | {"source": np.ones((0, SIDE, SIDE))}, conventions="paper")


def test_cases_of_a_batch_are_chosen_by_number_and_slice():
    batch, shared = batch_of("heat")
    case = Case.from_arrays("heat", device=CPU, **batch, **shared, conventions="paper")
    assert case.is_batch
    assert len(case) == 3
    assert [np.array_equal(own.domain, mask) for own, mask in zip(case, batch["domain"], strict=True)] == [True] * 3
    assert np.array_equal(case[-1].terms["source"], batch["source"][2])
    assert case[1].times == case.times == (0.0, 2.0, 14.0, 26.0)
    assert not case[np.int64(1)].is_batch
    some = case[1:]
    assert len(some) == 2
    assert np.array_equal(to_numpy(some.on(CPU).terms["initial"]), batch["initial"][1:])
    with pytest.raises(IndexError, match="cases 0 to 2, got 3"):
        case[3]
    with pytest.raises(disol.DisolError, match=r"at least one case, but slice\(3, None, None\) chooses none of 3"):
        case[3:]
    with pytest.raises(TypeError, match=r"by a number or a slice, got \[0\]"):
        case[[0]]
    with pytest.raises(TypeError, match="one case, not a batch"):
        case[0][0]
    with pytest.raises(TypeError, match="one case, not a batch"):
        len(case[0])
    assert case[0]


def test_pieces_hold_all_cases_in_their_order():
    case = Case.stack([disol.draw("poisson", 0, index, resolution=16, conventions="paper") for index in range(7)])
    for most, sizes in ((7, [7]), (100, [7]), (3, [2, 2, 3]), (4, [3, 4]), (1, [1] * 7)):
        pieces = list(case.pieces(most))
        assert [len(piece) for piece in pieces] == sizes
        assert np.array_equal(np.concatenate([piece.inputs for piece in pieces]), case.inputs)
    assert [piece.domain.ndim for piece in case[0].pieces(1)] == [2]


def test_stacked_cases_are_those_that_were_stacked():
    cases = [disol.draw("elasticity", 0, index, resolution=16, conventions="paper") for index in range(3)]
    batch = Case.stack(cases)
    assert np.array_equal(batch.inputs, np.stack([case.inputs for case in cases]))
    assert np.array_equal(batch.channel("fix_x")[1], cases[1].channel("fix_x"))
    assert batch.is_drawn
    assert batch[1:][0].is_drawn
    assert not Case.stack([cases[0], Case.from_arrays(cases[1], force_x=0 * cases[1].terms["force_x"])]).is_drawn


def other_cases():
    drawn = disol.draw("heat", resolution=16, conventions="paper")
    yield "problem", disol.draw("poisson", resolution=16, conventions="paper")
    yield "grid", disol.draw("heat", resolution=32, conventions="paper")
    yield "times", Case.from_arrays(drawn, times=[40])
    yield "number of the equation", Case.from_arrays(drawn, time_scale=0.5)
    yield "batch", Case.stack([drawn])


@pytest.mark.parametrize(("kind", "other"), list(other_cases()), ids=[kind for kind, _ in other_cases()])
def test_cases_that_differ_are_not_stacked(kind, other):
    with pytest.raises(disol.DisolError, match=r"share problem, conventions, grid and times, got Case\(heat"):
        Case.stack([disol.draw("heat", resolution=16, conventions="paper"), other])


def test_cases_at_other_times_are_stacked_after_what_the_message_says():
    cases = [disol.draw("heat", index=index, resolution=16) for index in range(3)]
    assert len({case.times for case in cases}) > 1
    message = r"Give each the same times, as in Case.from_arrays\(case, times=\[14.0\]\)"
    with pytest.raises(disol.DisolError, match=message):
        disol.solve_exact(cases)
    batch = disol.solve_exact([Case.from_arrays(case, times=[14.0]) for case in cases])
    for found, case in zip(batch, cases, strict=True):
        assert found.case.geometry is case.geometry
        assert np.array_equal(found.field, disol.solve_exact(case, times=[14.0]).field)


def test_cases_of_other_conventions_are_not_stacked():
    cases = [disol.draw("poisson", resolution=16, conventions=rules) for rules in ("paper", "published")]
    with pytest.raises(disol.DisolError, match="share problem, conventions, grid and times"):
        disol.solve_exact(cases)


@pytest.mark.parametrize(
    ("cases", "message"),
    [
        ([], "A batch needs at least one case, got none"),
        ([np.ones((4, 4))], "A batch is made of cases, got ndarray"),
        (3, "Unknown problem 3. Use one of poisson"),
        (None, "Unknown problem None"),
    ],
)
def test_what_is_no_case_is_one_clear_error(cases, message):
    with pytest.raises(disol.DisolError, match=message):
        disol.solve_exact(cases)


def test_cases_are_shown_in_a_line():
    drawn = disol.draw("heat", 3, 4, shift="topology", resolution=16, conventions="paper")
    assert repr(drawn).startswith("Case(heat, 16 x 16, ")
    assert repr(drawn).endswith(f", seed 3, index 4, shift topology, 1 times to {drawn.times[0]:g} s)")
    batch, shared = batch_of("poisson", 2)
    for case in (
        drawn,
        Case.from_arrays("poisson", **batch, **shared, conventions="paper"),
        Case.from_arrays("poisson", device=CPU, **batch, conventions="paper"),
    ):
        assert len(repr(case)) < 150
        assert "\n" not in repr(case)
    assert "batch of 2" in repr(Case.from_arrays("poisson", **batch, conventions="paper"))
    assert len(repr(disol.solve_exact(Case.stack([drawn] * 5)))) < 300


@pytest.mark.parametrize("problem", ["poisson", "heat"])
def test_a_gpu_is_looked_for_if_there_is_a_batch(monkeypatch, problem):
    looked = []
    monkeypatch.setattr("disol.solutions.solve.find_gpu", looked.append)
    terms = own_terms(problem) | ({"times": [2, 4]} if problem == "heat" else {})
    case = disol.draw(problem, resolution=16, conventions="paper")
    disol.solve_exact(problem, **terms, conventions="paper")
    disol.solve_exact(case)
    assert looked == []  # neither for one case
    disol.solve_exact([case, case])
    disol.solve_exact(Case.stack([case, case]))
    disol.solve_exact(problem, **terms | {"source": np.stack([terms["source"]] * 2)}, conventions="paper")
    disol.solve_exact(problem, **terms | {"source": [lambda x, y: x, lambda x, y: y]}, conventions="paper")
    disol.solve_exact(case, device="cpu")
    assert looked == ["auto"] * 4 + ["cpu"]


def test_every_exact_solution_says_what_rounding_may_have_done_to_it():
    cases = [disol.draw("elasticity", 0, index, resolution=16, conventions="paper") for index in range(3)]
    single, batch = disol.solve_exact(cases[1]), disol.solve_exact(cases)
    assert isinstance(single.rounding_error, float)
    assert 1e-16 < single.rounding_error < 1e-13
    assert batch.rounding_error.shape == (3,)
    assert batch[1].rounding_error == single.rounding_error
    assert batch[1:].rounding_error.tolist() == batch.rounding_error.tolist()[1:]
    there = solve_case(Case.stack(cases), CPU, at_any_size=True)
    # It does not refine what is well-conditioned, and says so.
    assert (there.rounding_error >= batch.rounding_error).all()
    assert there.rounding_error.max() < 1e-10
    assert isinstance(solve_case(cases[0], CPU, at_any_size=True).rounding_error, float)


@pytest.mark.parametrize("device", [None, CPU])
def test_a_case_that_is_too_ill_conditioned_is_named(monkeypatch, device):
    monkeypatch.setattr("disol.solutions.solve.cases_at_once", lambda case, gpu: 2)
    domain, held = np.zeros((2, 5, 1, 20))
    for row, columns in enumerate((5, 8, 6, 20, 7)):
        domain[row, 0, :columns] = held[row, 0, columns - 1] = 1
    case = Case.from_arrays(
        "advection-diffusion-high", domain=domain, dirichlet=held, source=domain, conventions="paper"
    )
    with pytest.raises(disol.DisolError, match=r"^Case 3: The system is too ill-conditioned for double precision"):
        solve_case(case, device, at_any_size=True)
    with pytest.raises(disol.DisolError, match=r"^The system is too ill-conditioned"):
        solve_case(case[3], device, at_any_size=True)
    assert solve_case(case[:3], device, at_any_size=True).rounding_error.max() < 1e-9


@pytest.mark.parametrize("device", [None, CPU])
def test_a_solution_that_rounding_may_have_changed_notably_is_told_of(monkeypatch, device):
    monkeypatch.setattr("disol.fem.rounding.NOTABLE_ERROR", 1e-17)
    cases = Case.stack([disol.draw("poisson", 0, index, resolution=16, conventions="paper") for index in range(2)])
    with pytest.warns(UserWarning, match=r"^Case [01]: The system is ill-conditioned: rounding may have changed"):
        solve_case(cases, device, at_any_size=True)
    with pytest.warns(UserWarning, match=r"^The system is ill-conditioned"):
        assert solve_case(cases[0], device, at_any_size=True).amplitude > 0
