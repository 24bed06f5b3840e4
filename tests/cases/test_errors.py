"""Bad input gets one clear error that says what to do."""

import numpy as np
import pytest
import torch

import disol

SIDE = 16


def good() -> dict:
    domain = np.zeros((SIDE, SIDE))
    domain[3:13, 3:13] = 1
    dirichlet = np.zeros_like(domain)
    dirichlet[3, 3:13] = 1
    return {"domain": domain, "dirichlet": dirichlet, "source": np.ones_like(domain)}


def good_elasticity() -> dict:
    data = good()
    force = np.zeros_like(data["domain"])
    force[12, 3:13] = 1
    return {
        "domain": data["domain"],
        "fix_x": data["dirichlet"],
        "fix_y": data["dirichlet"],
        "force_x": force,
        "force_y": 0 * force,
    }


def changed(name: str, *places, value: float) -> dict:
    data = good()
    for place in places:
        data[name][place] = value
    return {name: data[name]}


def two_parts() -> dict:
    domain = good()["domain"]
    domain[3:13, 8] = 0
    dirichlet = np.zeros_like(domain)
    dirichlet[3, 3:8] = 1
    return {"domain": domain, "dirichlet": dirichlet}


def corner_joint() -> dict:
    domain = np.zeros((SIDE, SIDE))
    domain[2:6, 2:6] = domain[6:10, 6:10] = 1
    dirichlet = np.zeros_like(domain)
    dirichlet[2, 2:6] = 1
    return {"domain": domain, "dirichlet": dirichlet}


def raising(x, y):
    raise KeyError("no such thing")


SCALAR_ERRORS = {
    "empty domain": ({"domain": np.zeros((SIDE, SIDE))}, "domain is empty"),
    "mask values": (changed("domain", (5, 5), value=0.5), "domain must hold only 0 and 1.*0.5"),
    "marker values": (changed("dirichlet", (5, 5), value=2), "dirichlet must hold only 0 and 1"),
    "all pinned": ({"dirichlet": good()["domain"]}, "Every node is held"),
    "raising source": ({"source": raising}, "raised KeyError"),
    "source of wrong shape": ({"source": lambda x, y: np.ones(3)}, "one value per point"),
    "source of complex numbers": ({"source": lambda x, y: 1j * x}, "real numbers"),
    "NaN from a source": ({"source": lambda x, y: np.full_like(x, np.nan)}, "NaN"),
    "no part pinned": ({"dirichlet": np.zeros((SIDE, SIDE))}, "1 of 1 parts.*no dirichlet pixel"),
    "one part not pinned": (two_parts(), "1 of 2 parts.*no dirichlet pixel"),
    "joined at a corner only": (corner_joint(), "1 of 2 parts.*no dirichlet pixel"),
    "markers outside": (changed("dirichlet", (0, 0), value=1), "1 dirichlet pixels lie outside the domain"),
    "wrong shape": ({"source": np.ones((SIDE, SIDE + 1))}, r"shape \(16, 16\), got \(16, 17\)"),
    "four dimensions": ({"domain": np.ones((1, 1, SIDE, SIDE))}, r"\[height, width\]"),
    "strings": ({"domain": np.full((SIDE, SIDE), "1")}, "real numbers"),
    "NaN source": (changed("source", (5, 5), value=np.nan), "source holds NaN or infinite"),
    "infinite source": (changed("source", (5, 5), value=np.inf), "source holds NaN or infinite"),
    "NaN mask": (changed("domain", (5, 5), value=np.nan), "domain holds NaN"),
    "ragged domain": ({"domain": [[1, 1], [1]]}, "domain must be one array, got rows or cases of different sizes"),
    "masks of two grids": ({"domain": [np.ones((4, 4)), np.ones((8, 8))]}, "cases of different sizes"),
    "tensor with gradients": (
        {"source": torch.ones(SIDE, SIDE, requires_grad=True)},
        r"source must be what NumPy reads as an array, got a Tensor: .*requires grad.* Pass tensors as tensor.detach",
    ),
    "masked values in a list": (
        {"source": [np.ma.masked_less(np.linspace(0, 1, SIDE**2).reshape(SIDE, SIDE), 0.5)]},
        r"source must be an array without masked values\. Fill them",
    ),
    "masked values": (
        {"source": np.ma.masked_less(np.linspace(0, 1, SIDE**2).reshape(SIDE, SIDE), 0.5)},
        r"source must be an array without masked values\. Fill them, as in array\.filled\(0\)\.",
    ),
    "tensor that is nowhere": ({"domain": torch.ones(SIDE, SIDE, device="meta")}, "domain must be what NumPy reads"),
    "missing source": ({"source": None}, "source missing"),
    "unknown term": ({"sources": 1}, "no 'sources'.*domain, dirichlet, source"),
    "unknown element": ({"element": "q2"}, "q1, p1"),
    "unknown conventions": ({"conventions": "article"}, "paper, published"),
    "no diffusion": ({"diffusion": 0.0}, "diffusion must be positive"),
    "bad velocity": ({"velocity": (1.0, np.nan)}, "velocity"),
}


@pytest.mark.parametrize(("change", "message"), SCALAR_ERRORS.values(), ids=SCALAR_ERRORS)
def test_a_wrong_scalar_problem_is_one_clear_error(change, message):
    with pytest.raises(ValueError, match=message) as raised:
        disol.solve_exact("poisson", **{**good(), **change})
    assert "\n" not in str(raised.value)


def test_the_unchanged_inputs_are_fine():
    assert disol.solve_exact("poisson", **good()).amplitude > 0
    assert disol.solve_exact("elasticity", **good_elasticity()).amplitude > 0


ELASTICITY_ERRORS = {
    "not fixed at all": ({"fix_x": np.zeros((SIDE, SIDE)), "fix_y": np.zeros((SIDE, SIDE))}, "no fix_x pixel"),
    "free to slide": ({"fix_y": np.zeros((SIDE, SIDE))}, "no fix_y pixel"),
    "force outside": ({"force_x": np.ones((SIDE, SIDE))}, "force_x pixels lie outside"),
    "NaN force": ({"force_y": np.full((SIDE, SIDE), np.nan)}, "force_y holds NaN"),
    "all fixed": ({"fix_x": good()["domain"], "fix_y": good()["domain"]}, "Every node is held"),
    "impossible material": ({"poisson_ratio": 0.5}, "poisson_ratio"),
}


@pytest.mark.parametrize(("change", "message"), ELASTICITY_ERRORS.values(), ids=ELASTICITY_ERRORS)
def test_wrong_elasticity_is_one_clear_error(change, message):
    with pytest.raises(ValueError, match=message):
        disol.solve_exact("elasticity", **{**good_elasticity(), **change})


HEAT_ERRORS = {
    "negative time": ({"times": [-2.0]}, "not negative"),
    "off the step": ({"times": [3.0]}, "multiples of the time step, 2 s"),
    "no time": ({"times": []}, "list of numbers"),
    "NaN time": ({"times": [np.nan]}, "finite"),
    "words": ({"times": ["soon"]}, "list of numbers"),
    "ragged times": ({"times": [[2.0], [2.0, 4.0]]}, "times must be one array"),
    "table of times": ({"times": np.ones((30, 30))}, r"list of numbers, got shape \(30, 30\)"),
    "no initial field": ({"initial": None}, "initial missing"),
    "published": ({"conventions": "published"}, "only the conventions 'paper'"),
    "no steps": ({"steps_per_frame": 0}, "at least 1"),
    "too many steps": ({"steps_per_frame": 10**9}, "steps_per_frame must be at most 1000, got 1000000000"),
    "too many steps in all": (
        {"steps_per_frame": 1000, "times": [2000.0]},
        r"times must be at most 100,000 time steps of 0\.002 s, got 2000 s",
    ),
    "source that underflows": ({"time_scale": 1e-250, "source_strength": 1e-110}, "load underflows.* Use other units"),
    "negative scale": ({"time_scale": -1.0}, "time_scale must be positive"),
}


@pytest.mark.parametrize(("change", "message"), HEAT_ERRORS.values(), ids=HEAT_ERRORS)
def test_wrong_heat_is_one_clear_error(change, message):
    with pytest.raises(ValueError, match=message):
        disol.solve_exact("heat", **{**good(), "initial": np.ones((SIDE, SIDE)), **change})


def test_a_missing_term_is_named():
    with pytest.raises(ValueError, match="source missing"):
        disol.solve_exact("poisson", domain=good()["domain"], dirichlet=good()["dirichlet"])


DRAW_ERRORS = {
    "negative seed": ({"seed": -1}, "seed must not be negative"),
    "fractional seed": ({"seed": 1.5}, "seed must be a whole number"),
    "negative index": ({"index": -1}, "index must not be negative"),
    "fractional index": ({"index": 0.5}, "index must be a whole number"),
    "truth as index": ({"index": True}, "index must be a whole number"),
    "small grid": ({"resolution": 8}, r"resolution must lie in \[16, 4096\], got 8"),
    "huge grid": ({"resolution": 100_000}, r"resolution must lie in \[16, 4096\], got 100000"),
    "fractional grid": ({"resolution": 64.0}, "resolution must be a whole number"),
    "unknown shift": ({"shift": "topologie"}, "topology, boundary, source, all, shape:NAME"),
    "unknown shape": ({"shift": "shape:hexagon"}, "arrow, parallelogram"),
    "unknown addition": ({"shift": "shape:arrow+dent"}, "Only '\\+hole'"),
    "hole size": ({"shift": {"topology": 0.9}}, "'topology' must lie in"),
    "half a segment": ({"shift": {"boundary": 1.5}}, "whole numbers"),
    "source without waves": ({"shift": "source=0"}, r"must lie in \[0\.1, 64\], got 0"),
    "size in words": ({"shift": "source=high"}, r"a number or two, got 'high'\. Write source=0\.3"),
    "no size": ({"shift": "source="}, "a number or two, got ''"),
    "half a pair": ({"shift": "topology=0.2.."}, "a number or two, got '0.2..'"),
    "three sizes": ({"shift": {"topology": (0.1, 0.2, 0.3)}}, "a number or a pair of numbers"),
    "truth as size": ({"shift": {"boundary": True}}, "a number or a pair of numbers, got True"),
    "pair upside down": ({"shift": "topology=0.3..0.2"}, r"'topology' must lie in \[0.05, 0.6\], got 0.3..0.2"),
    "two frequencies": ({"shift": "source=2..8"}, "'source' is one number, got 2..8"),
    "size of all": ({"shift": "all=0.3"}, "Only topology, boundary, source have sizes, but 'all' got one"),
    "size of a shape": ({"shift": "shape:arrow=0.3"}, "but 'shape:arrow' got one"),
    "a factor twice": ({"shift": "topology=0.2,topology"}, "names 'topology' twice"),
    "a random hole in a shape": ({"shift": "shape:arrow,topology"}, r"no random hole.*shape:arrow\+hole"),
    "a shape and all": ({"shift": "all,shape:arrow"}, r"no random hole.*shape:arrow\+hole"),
    "two shapes": ({"shift": "shape:arrow,shape:star"}, "one shape, got 'arrow' and 'star'"),
    "shift of another kind": ({"shift": 3}, "A shift is a name"),
    "endless size": ({"shift": {"topology": 10**400}}, "The size of 'topology' must be finite, got 1000"),
    "endless sizes": ({"shift": {"topology": (0.1, 10**400)}}, "The size of 'topology' must be finite, got 1000"),
    "size without axes": ({"shift": {"topology": np.array(3)}}, r"a pair of numbers, got array\(3\)"),
    "endless seed": ({"seed": -9 * 10**4400}, "seed must not be negative, got a int that is too long to show"),
    "endless grid": ({"resolution": 9 * 10**4400}, r"must lie in \[16, 4096\], got a int that is too long to show"),
    "endless shift": ({"shift": [9 * 10**4400]}, "A shift is a name"),
    "endless alpha": ({"alpha": 9 * 10**4400}, r"alpha must lie in \[0, 1\], got a int that is too long to show"),
    "very long shift": ({"shift": "x" * 10**5}, r"Unknown shift 'xxx.*xxx\.\.\.xxx.*xxx'\. The shifts are topology"),
    "conventions": ({"conventions": "mine"}, "paper, published"),
    "alpha": ({"alpha": 1.5}, "alpha must lie in"),
}


@pytest.mark.parametrize(("change", "message"), DRAW_ERRORS.values(), ids=DRAW_ERRORS)
def test_a_case_that_cannot_be_drawn_is_one_clear_error(change, message):
    with pytest.raises(ValueError, match=message) as raised:
        disol.draw("poisson", **change)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 1000


def test_an_unknown_problem_is_an_error_that_lists_the_known_ones():
    known = "poisson, advection-diffusion-low, advection-diffusion-high, elasticity, heat"
    with pytest.raises(ValueError, match=known):
        disol.draw("stokes")
    with pytest.raises(ValueError, match=known):
        disol.solve_exact("stokes")


def test_elasticity_has_no_source_to_shift():
    with pytest.raises(ValueError, match="no source to shift"):
        disol.draw("elasticity", shift="source")


def test_a_case_keeps_the_conventions_it_was_drawn_with():
    case = disol.draw("poisson", resolution=16, conventions="published")
    with pytest.raises(ValueError, match="drawn with conventions 'published'"):
        disol.solve_exact(case, conventions="paper")


REPRESENTABLE = [
    ({}, 1e300, 1.0),
    ({}, 1e-305, 1.0),
    ({"diffusion": 1e300}, 1.0, 1e300),
    ({"diffusion": 1e-300}, 1.0, 1e-300),
    ({"diffusion": 1e307}, 1e300, 1e307),
    ({"diffusion": 1e-300}, 1e-300, 1e-300),
]


@pytest.mark.parametrize(("numbers", "size", "stiffness"), REPRESENTABLE)
def test_problems_of_any_size_are_solved_if_their_solutions_are_doubles(numbers, size, stiffness):
    pixels = {**good(), "conventions": "paper"}
    usual = disol.solve_exact("poisson", **pixels)
    sized = disol.solve_exact("poisson", **{**pixels, "source": size * good()["source"]}, **numbers)
    assert sized.nodes * stiffness / size == pytest.approx(usual.nodes, rel=1e-13)
    assert sized.rounding_error < 1e-14


NO_DOUBLES = {
    "solution that overflows": ({"source": 1e308 * np.ones((SIDE, SIDE)), "diffusion": 1e-3}, "solution overflows"),
    "solution that underflows": ({"diffusion": 1e307, "source": 1e-3 * np.ones((SIDE, SIDE))}, "solution underflows"),
    "source that underflows": ({"source": 1e-320 * np.ones((SIDE, SIDE))}, "solution underflows"),
    "load that overflows": (
        {"source": 1.7e308 * np.ones((SIDE, SIDE)), "conventions": "published"},
        "load overflows in double precision",
    ),
    "matrix that underflows": ({"diffusion": 1e-310}, "element matrix underflows"),
    "matrix that overflows": ({"diffusion": 1.7e308, "velocity": (1e308, 1e308)}, "element matrix overflows"),
}


@pytest.mark.parametrize(("change", "message"), NO_DOUBLES.values(), ids=NO_DOUBLES)
def test_what_is_no_double_is_called_so_and_not_singular(change, message):
    with pytest.raises(disol.DisolError, match=f"^The {message}.* Use other units") as raised:
        disol.solve_exact("poisson", **{**good(), "conventions": "paper", **change})
    assert "\n" not in str(raised.value)
    batch = {**good(), "conventions": "paper", **change}
    batch["source"] = np.stack([0 * batch["source"], batch["source"]])
    with pytest.raises(disol.DisolError, match=message):
        disol.solve_exact("poisson", **batch)


@pytest.mark.parametrize("dtype", [np.longdouble, ">f8", "<f4", "f2", ">i4", "u2"])
@pytest.mark.parametrize("device", [None, torch.device("cpu")])
def test_arrays_of_any_real_type_are_read_here_and_on_a_device(dtype, device):
    data = {name: np.stack([array, array]).astype(dtype) for name, array in good().items()}
    case = disol.Case.from_arrays("poisson", device=device, **data)
    assert disol.solve_exact(case).amplitude[1] == pytest.approx(disol.solve_exact("poisson", **good()).amplitude)


HUGE = 10**400


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"source": np.full((SIDE, SIDE), HUGE, dtype=object)}, "source must hold real numbers, got dtype object"),
        ({"source": [[HUGE] * SIDE] * SIDE}, "source must hold real numbers, got dtype object"),
        ({"source": good()["source"] * 1j}, "source must hold real numbers, got dtype complex128"),
        ({"source": lambda x, y: np.full(x.shape, np.longdouble("1e4000"))}, "result of the source function overflows"),
        ({"diffusion": HUGE}, "diffusion must be finite"),
        ({"diffusion": np.longdouble("1e4000")}, "diffusion must be finite"),
        ({"diffusion": np.longdouble("1e-4000")}, "diffusion must be positive"),
        ({"velocity": (HUGE, 0)}, "velocity must be finite"),
    ],
)
@pytest.mark.skipif(np.finfo(np.longdouble).maxexp < 16000, reason="a long double is a double here")
def test_numbers_that_doubles_cannot_hold_are_told_so(change, message):
    with pytest.raises(disol.DisolError, match=message) as raised:
        disol.solve_exact("poisson", **{**good(), **change})
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 400


def test_values_that_cannot_be_shown_or_compared_are_refused_in_a_line():
    huge, several = 9 * 10**4400, np.ones(3)
    terms = {"domain": np.ones((4, 4)), "dirichlet": np.eye(4), "source": np.ones((4, 4))}
    with pytest.raises(disol.DisolError, match="Unknown element a int that is too long to show"):
        disol.solve_exact("poisson", **terms, element=huge)
    with pytest.raises(disol.DisolError, match=r"Unknown device array\(\[1., 1., 1.\]\)"):
        disol.solve_exact("poisson", **terms, device=several)
    with pytest.raises(disol.DisolError, match="A shift is a name, a mapping"):
        disol.generate("poisson", 2, "never.h5", shift=several)
    with pytest.raises(disol.DisolError, match="Unknown device"):
        disol.generate("poisson", 2, "never.h5", device=several)
    for velocity in (huge, np.array(3), [1], [1, 2, 3], np.ones((1, 2))):
        with pytest.raises(disol.DisolError, match=r"velocity must be two numbers, \(along x, along y\), got"):
            disol.solve_exact("poisson", **terms, velocity=velocity)
    with pytest.raises(disol.DisolError, match=r"A trained network is the name of a shipped model, .* got a int"):
        disol.load(huge)
    with pytest.raises(disol.DisolError, match="scheduler must be the address of a Dask scheduler, got 3"):
        disol.generate("poisson", 2, "never.h5", scheduler=3)


def test_a_term_without_axes_beside_a_batch_is_refused_in_a_line():
    with pytest.raises(disol.DisolError, match="domain"):
        disol.solve_exact("poisson", domain=1, dirichlet=np.ones((2, 4, 4)), source=np.ones((4, 4)))
