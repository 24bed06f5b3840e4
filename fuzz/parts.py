"""Texts that name parts of a boundary, and give values on them: right ones, whose meaning is known, and garbage."""

from pathlib import Path
from typing import Any

import numpy as np

import disol
from attempts import Attempt, WrongAnswer, chance, hostile_text, pick
from disol.geometry.curve import Curve, Geometry
from disol.geometry.frame import Frame
from disol.geometry.named_parts import find_part, split_parts
from disol.geometry.region import Region

NAMES = ("left", "right", "top", "bottom", "outer", "hole1", "outer:0.1-0.35", "outer:0.9-0.05", "hole1:.5-1")
VALUES = ("20", "-1.5e3", "80 + 5*y", "sin(6*x)*(y - 1)", "maximum(x, y)", "((x))", "arctan2(y, x)", "+3", ".5")
ARGUMENTS = ("dirichlet", "flux", "convection", "fix_x", "fix_y", "force_x", "force_y", "source", "initial", "times")
CLOSE = 1e-9


def parts(rng: np.random.Generator, folder: Path) -> Attempt:
    """Split texts, find parts of a boundary, and read cases from texts."""
    del folder
    way = rng.integers(5)
    if way == 0:
        listed = {name: pick(rng, [*VALUES, None]) for name in draw_names(rng)}
        text = ",".join(write_piece(rng, name, value) for name, value in listed.items())
        return Attempt(f"split {text!r}", lambda: require(f"parts of {text!r}", split_parts(text), listed))
    if way == 1:
        (width, height), corner = rng.uniform(0.2, 0.5, 2).tolist(), rng.uniform(0.1, 0.4, 2)
        frame = Frame(tuple(rng.normal(size=2).tolist()), float(10 ** rng.uniform(-9, 9)), chance(rng, 0.5))
        asked = rng.random(2)
        return Attempt(f"parts of {width} x {height}", lambda: check_rectangle(width, height, corner, frame, asked))
    if way == 2:
        texts = {pick(rng, ARGUMENTS): draw_text(rng) for _ in range(int(rng.integers(1, 3)))}
        problem, geometry = pick(rng, list(disol.PROBLEMS)), pick(rng, ["star+hole", "arrow", "random:3"])
        conventions = "physical" if chance(rng, 0.8) else "paper"
        said = f"read_case({problem!r}, {geometry!r}, {str(texts)[:400]}, {conventions})"
        return Attempt(said, lambda: read_and_solve(problem, geometry, texts, conventions))
    text = draw_text(rng)
    if way == 3:
        return Attempt(f"split {text[:300]!r}", lambda: split_parts(text))
    name: Any = text if chance(rng, 0.9) else pick(rng, [None, 3, b"left", ("left",), np.str_("left"), Path("left")])
    return Attempt(f"find {str(name)[:300]!r}", lambda: find_part(HOLED, name))


def rectangle(width: float, height: float, corner: np.ndarray) -> Curve:
    """Return a rectangle, clockwise as one sees it, from its upper left corner."""
    x, y = corner.tolist()
    return Curve(np.array([[x, y], [x + width, y], [x + width, y + height], [x, y + height]]))


HOLED = Region.from_geometry(
    Geometry(rectangle(0.8, 0.6, np.array([0.1, 0.2])), (rectangle(0.2, 0.2, np.array([0.3, 0.3])),))
)


def draw_names(rng: np.random.Generator) -> list[str]:
    """Draw different names of parts."""
    near = [f"near:{rng.normal():.3f},{rng.normal():.3f}", "near: 0.2 , -3", "near:1e3,2"]
    names = [*NAMES, *near]
    return [names[place] for place in rng.permutation(len(names))[: int(rng.integers(1, 6))]]


def write_piece(rng: np.random.Generator, name: str, value: str | None) -> str:
    """Write PART or PART=VALUE, with blanks anywhere around."""
    before, between, after, last = (" " * int(rng.integers(0, 3)) for _ in range(4))
    return f"{before}{name}{after}" if value is None else f"{before}{name}{between}={after}{value}{last}"


def draw_text(rng: np.random.Generator) -> str:
    """Draw a text that is nearly right, or not at all."""
    way = rng.integers(9)
    if way <= 2:
        text = ",".join(write_piece(rng, name, pick(rng, [*VALUES, "1:2", None])) for name in draw_names(rng))
        for _ in range(int(rng.integers(0, 4))):
            place = int(rng.integers(len(text) + 1))
            sign = pick(rng, [*",=:()[]-+.e0 9", "\0", "\n", "ı", "−", "٣", "\u202e", "ﬂ", "Ⅳ"])
            text = text[:place] + sign + text[place + int(rng.integers(2)) :]
        return text
    if way == 3:
        depth = int(10 ** rng.uniform(0, 4.2))
        return pick(rng, ["left=", "near:", "outer:", ""]) + "(" * depth + "x" + ")" * int(depth * rng.uniform(0, 1.2))
    if way == 4:
        return ",".join([pick(rng, [*NAMES, "", "near:1", "near:1,2,3"])] * int(10 ** rng.uniform(0, 5)))
    if way == 5:
        return pick(rng, ["left", "outer:0-0.1"]) + "=" + pick(rng, ["-", "("]) * int(10 ** rng.uniform(0, 3.9)) + "1"
    if way == 6:
        count = "9" * int(10 ** rng.uniform(0, 3.9))
        return pick(rng, [f"hole{count}", f"outer{count}", f"outer:0-0.{count}", f"near:{count},1", f"left=1e{count}"])
    if way == 7:
        numbers = ["nan", "inf", "1e999", "-0", "0x1", "1_0", "", " ", "1e-400", "1e308", "-1e308", "٣"]
        return f"near:{pick(rng, numbers)},{pick(rng, numbers)}"
    return hostile_text(rng)


def require(what: str, found: object, right: object) -> None:
    """Require equality."""
    if found != right:
        raise WrongAnswer(f"{what} are {found}, {right} expected")


def check_rectangle(width: float, height: float, corner: np.ndarray, frame: Frame, asked: np.ndarray) -> None:
    """Require the sides of a rectangle by their names, by points beside them, and as ranges of its outline."""
    region = Region.from_geometry(Geometry(rectangle(width, height, corner), ()))
    around = 2 * (width + height)
    # Clockwise from the upper left corner, where the outline starts.
    sides = {"top": (0.0, width), "right": (width, width + height), "bottom": (width + height, 2 * width + height)}
    sides["left"] = (2 * width + height, around)
    middles = {"top": (0.5, 0.0), "right": (1.0, 0.5), "bottom": (0.5, 1.0), "left": (0.0, 0.5)}
    for name, (start, end) in sides.items():
        beside = frame.to_drawing(corner + np.array([width, height]) * middles[name])
        for said in (name, f"near:{beside[0]!r},{beside[1]!r}", f" {name.upper()} "):
            found = find_part(region, said.replace("np.float64(", "").replace(")", ""), frame)
            places = [(arc.start * around, arc.end * around) for arc in found]
            if len(places) != 1 or not np.allclose(places[0], (start, end), atol=CLOSE):
                raise WrongAnswer(f"{said} is {places}, {(start, end)} expected")
    start, end = (float(f"{place:.6f}") for place in asked)
    found = find_part(region, f"outer:{start:.6f}-{end:.6f}")
    length = (end - start) % 1.0
    if len(found) != 1 or not np.isclose(found[0].end - found[0].start, length, atol=CLOSE):
        raise WrongAnswer(f"outer:{start}-{end} is {found}")


def read_and_solve(problem: str, geometry: str, texts: dict[str, Any], conventions: str) -> None:
    """Solve what is read from texts."""
    case = disol.read_case(problem, geometry, resolution=16, conventions=conventions, **texts)
    if not np.isfinite(disol.solve_exact(case, device="cpu").field).all():
        raise WrongAnswer("a solution that is not finite")
