"""Inputs that people write, draw or receive: pictures, polygons, boundary ranges and formulas."""

import io
import json
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

import disol
from attempts import Attempt, WrongAnswer, chance, hostile_text, mutated, odd_file, pick, short
from disol.expressions import read_expression

PROBLEMS = ["poisson", "poisson", "advection-diffusion-high", "elasticity", "heat"]
FORMATS = {"PNG": "png", "GIF": "gif", "JPEG": "jpg", "TIFF": "tif", "BMP": "bmp", "WEBP": "webp"}


def read_geometry(path: Path, problem: str) -> None:
    """Read a case from a file and solve it."""
    case = disol.read_case(problem, path, resolution=16, conventions="paper")
    if not np.isfinite(disol.solve_exact(case, device="cpu").field).all():
        raise WrongAnswer("a solution that is not finite")


def pictures(rng: np.random.Generator, folder: Path) -> Attempt:
    """Read pictures: painted, damaged, of all modes and formats, huge, and files that are none."""
    problem = pick(rng, PROBLEMS)
    kind = pick(rng, ["painted", "painted", "damaged", "damaged", "damaged", "bomb", "odd"])
    form = pick(rng, list(FORMATS))
    path = folder / f"part.{FORMATS[form] if chance(rng, 0.9) else pick(rng, list(FORMATS.values()))}"
    if kind == "bomb":
        name, content = draw_bomb(rng)
        path = folder / f"part.{name}"
        path.write_bytes(content)
        text = f"{name} bomb of {len(content)} bytes"
    else:
        content = paint(rng, form)
        path.write_bytes(mutated(rng, content) if kind == "damaged" else content)
        text = f"{kind} {form} as {path.name}, {len(content)} bytes"
        if kind == "odd":
            text += f": {odd_file(rng, path, content, folder.parent / 'bystander')}"
    return Attempt(f"{problem}: {text}", lambda: read_geometry(path, problem))


def paint(rng: np.random.Generator, form: str) -> bytes:
    """Paint a dark shape with red and blue edges."""
    size = tuple(
        int(side) for side in (rng.integers(1, 80, size=2) if chance(rng, 0.9) else rng.integers(1, 700, size=2))
    )
    image = Image.new("RGBA", size, (255, 255, 255, int(pick(rng, [0, 255]))))  # type: ignore[arg-type]
    pen = ImageDraw.Draw(image)
    box = sorted(rng.integers(0, size[0], size=2).tolist()), sorted(rng.integers(0, size[1], size=2).tolist())
    corners = [box[0][0], box[1][0], box[0][1], box[1][1]]
    (pen.rectangle if chance(rng, 0.5) else pen.ellipse)(corners, fill=(0, 0, 0, 255))
    for colour in ((255, 0, 0, 255), (0, 0, 255, 255), (255, 0, 255, 255)):
        if chance(rng, 0.6):
            pen.line([corners[0], corners[1], corners[2], corners[1]], fill=colour, width=int(rng.integers(1, 9)))
    modes = {"PNG": ["RGBA", "RGB", "L", "LA", "1", "P", "I", "I;16"], "GIF": ["P", "L"], "JPEG": ["RGB", "L", "CMYK"]}
    mode = pick(
        rng,
        modes.get(form, ["RGB", "L", "1"] if form != "TIFF" else ["RGBA", "RGB", "L", "1", "F", "I", "CMYK", "I;16"]),
    )
    converted = image.convert("I").convert("I;16") if mode == "I;16" else image.convert(mode)
    stream = io.BytesIO()
    try:
        converted.save(stream, form)
    except (OSError, ValueError, KeyError):  # a mode that this format has not
        stream = io.BytesIO()
        image.convert("RGB").save(stream, form)
    return stream.getvalue()


def chunk(kind: bytes, content: bytes) -> bytes:
    """Write a chunk of a PNG file."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def zeros(count: int) -> bytes:
    """Compress so many zeros without making them: the same block again and again."""
    block = 2**20
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    once = packer.compress(bytes(block)) + packer.flush(zlib.Z_FULL_FLUSH)
    end = zlib.compressobj(9, zlib.DEFLATED, -15)
    rest = end.compress(bytes(count % block)) + end.flush()
    check = ((count % 65521) << 16) | 1  # Adler-32 of zeros
    return b"\x78\xda" + once * (count // block) + rest + struct.pack(">I", check)


def draw_bomb(rng: np.random.Generator) -> tuple[str, bytes]:
    """Make a small file of a picture that is huge, or says so, or one whose header does not end."""
    side = int(pick(rng, [5000, 20000, 50000, 2**16, 2**31 - 1]))
    kind = rng.integers(7)
    if kind >= 5:
        form, piece = pick(rng, LONG_HEADERS)
        whole, start = paint(rng, form), {"JPEG": 2, "PNG": 33, "GIF": 13}[form]
        start += 3 * 2 ** (whole[10] % 8 + 1) if form == "GIF" else 0  # its palette
        pieces = piece * (int(10 ** rng.uniform(4, 7)) // len(piece))
        return FORMATS[form], whole[:start] + pieces + whole[start:]
    if kind <= 1:
        depth, colour, bits = pick(rng, [(1, 0, 1), (8, 0, 8), (8, 2, 24), (16, 6, 64), (8, 3, 8)])
        row = 1 + (side * bits + 7) // 8
        content = zeros(row * side) if row * side < 4 * 10**9 and kind == 0 else zeros(10**6)
        header = struct.pack(
            ">IIBBBBB", side, side if chance(rng, 0.8) else 1, depth, colour, 0, 0, int(chance(rng, 0.2))
        )
        palette = chunk(b"PLTE", bytes(768)) if colour == 3 else b""
        return "png", b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + palette + chunk(b"IDAT", content) + chunk(
            b"IEND", b""
        )
    if kind == 2:
        wide = min(side, 65535)
        image = struct.pack("<BHHHHB", 0x2C, 0, 0, wide, wide, 0) + b"\x02\x02\x44\x01\x00;"
        return "gif", b"GIF89a" + struct.pack("<HHBBB", wide, wide, 0x80, 0, 0) + bytes(3) + b"\xff" * 3 + image
    if kind == 3:
        tags = [
            (256, 4, side),
            (257, 4, side),
            (258, 3, 8),
            (259, 3, 1),
            (262, 3, 1),
            (273, 4, 8),
            (277, 3, 1),
            (278, 4, side),
            (279, 4, 99),
        ]
        entries = b"".join(struct.pack("<HHII", tag, of, 1, value % 2**32) for tag, of, value in tags)
        return "tif", b"II*\0" + struct.pack("<I", 8) + struct.pack("<H", len(tags)) + entries + bytes(4)
    header = struct.pack("<IiiHHIIiiII", 40, side, side, 1, 24, 0, 0, 0, 0, 0, 0)
    return "bmp", b"BM" + struct.pack("<IHHI", 54, 0, 0, 54) + header


LONG_HEADERS = [  # pieces that may be repeated between the first bytes of a file and its pixels
    ("JPEG", b"\xff\xe1\xff\xffExif\0\0" + bytes(2**16 - 9)),
    ("JPEG", b"\xff\xe1\0\x09Exif\0\0x"),
    ("JPEG", b"\xff\xfe\0\3x"),
    ("JPEG", b"\xff\xd0"),
    ("JPEG", b"\xff"),
    ("PNG", chunk(b"tEXt", b"name\0text")),
    ("PNG", chunk(b"prVt", b"")),
    ("GIF", b"!\xfe\1x\0"),
    ("GIF", b"!\xf9\4\0\0\0\0\0"),
]


def outlines(rng: np.random.Generator, folder: Path) -> Attempt:
    """Read polygons as JSON and GeoJSON: right, degenerate, damaged, deep, huge."""
    problem = pick(rng, PROBLEMS)
    path = folder / pick(rng, ["outline.json", "outline.geojson", "outline.JSON"])
    kind = rng.integers(10)
    if kind < 5:
        content = json.dumps(draw_document(rng)).encode()
    elif kind < 8:
        content = mutated(rng, json.dumps(draw_document(rng)).encode())
    elif kind == 8:
        content = draw_odd_document(rng)
    else:
        content = json.dumps(draw_document(rng)).encode()
    path.write_bytes(content)
    text = f"{problem}: {len(content)} bytes, {content[:150]!r}"
    if kind == 9:
        text += f": {odd_file(rng, path, content, folder.parent / 'bystander')}"
    return Attempt(text, lambda: read_geometry(path, problem))


def draw_ring(rng: np.random.Generator, centre: tuple[float, float], radius: float) -> list[Any]:
    """Draw a polygon: star-shaped mostly, else with points of any kind."""
    count = int(pick(rng, [3, 4, 5, 8, 30, int(10 ** rng.uniform(0, 3.4))]))
    angles = np.sort(rng.uniform(0, 2 * np.pi, count))
    angles = angles if chance(rng, 0.2) else 2 * np.pi * np.arange(count) / count
    radii = radius * (rng.uniform(0.4, 1, count) if chance(rng, 0.5) else np.ones(count))
    points = np.stack([centre[0] + radii * np.cos(angles), centre[1] + radii * np.sin(angles)], axis=1).tolist()
    damage = rng.integers(40)
    if damage == 0:
        rng.shuffle(points)
    elif damage == 1:
        points = [[round(10 * x) / 10, round(10 * y) / 10] for x, y in points]
    elif damage == 2:
        points = [[x, 0.5] for x, _ in points]
    elif damage == 3 and points:
        points[int(rng.integers(len(points)))] = pick(
            rng, [[], [1], None, "x", [1, 2, 3, 4], ["1", "2"], [[0, 0], [1, 1]], {}]
        )
    elif damage == 4 and points:
        points[int(rng.integers(len(points)))] = [
            pick(rng, [0, 1e308, -1e308, 1e-320, float("nan"), float("inf"), 10**400, True, 1e17]) for _ in range(2)
        ]
    elif damage == 5:
        points = [[1e-12 * x, 1e-12 * y] for x, y in points]
    elif damage == 6:
        points = [[1e12 * x + 1e15, 1e12 * y] for x, y in points]
    elif damage == 7:
        points = points + points[:1]
    return points


def draw_document(rng: np.random.Generator) -> Any:
    """Draw a document of polygons."""
    outer = draw_ring(rng, (0.5, 0.5), float(pick(rng, [0.45, 0.45, 0.2, 3.0])))
    holes = [
        draw_ring(rng, tuple(rng.uniform(0.45, 0.55, size=2)), float(rng.uniform(0.01, 0.08)))
        for _ in range(int(pick(rng, [0, 0, 0, 1, 1, 2])))
    ]
    kind = rng.integers(8)
    if kind < 4:
        return {"outer": outer, "holes": holes} if holes or chance(rng, 0.5) else {"outer": outer}
    polygon = {"type": "Polygon", "coordinates": [ring + ring[:1] for ring in (outer, *holes)]}
    if kind < 6:
        return polygon
    if kind == 6:
        return {"type": "Feature", "properties": {}, "geometry": polygon}
    return pick(
        rng,
        [
            {"type": "MultiPolygon", "coordinates": [polygon["coordinates"]]},
            {"type": "FeatureCollection", "features": [polygon]},
            {"type": "Feature", "geometry": None},
            {"type": "Polygon", "coordinates": None},
            {"type": ["Polygon"], "coordinates": []},
            {"outer": outer, "holes": pick(rng, [None, {}, "x", 3, [None], [[]], [[[]]]])},
            {"outer": pick(rng, [None, {}, "x" * 9, 3, [], [[]], [1, 2, 3]])},
            [outer],
            None,
            3,
            "outer",
            {"outer": outer, "more": 1},
        ],
    )


def draw_odd_document(rng: np.random.Generator) -> bytes:
    """Write a document that is deep, long, or no document."""
    kind = rng.integers(8)
    depth = int(10 ** rng.uniform(2, 5.5))
    if kind == 0:
        return b"[" * depth
    if kind == 1:
        return b'{"outer":' * depth + b"1" + b"}" * depth
    if kind == 2:
        return b'{"outer":' + b"[" * depth + b"]" * depth + b"}"
    if kind == 3:
        return b'{"outer":[[0.1,0.1],[0.9,0.1],[0.5,' + b"9" * depth + b"]]}"
    if kind == 4:
        hole = b"[[0.5,0.5],[0.51,0.5],[0.5,0.51]]"
        holes = b",".join([hole] * int(10 ** rng.uniform(1, 5)))
        return b'{"outer":[[0.1,0.1],[0.9,0.1],[0.5,0.9]],"holes":[' + holes + b"]}"
    if kind == 5:
        points = b",".join(b"[%d,%d]" % (i, i * i % 1009) for i in range(int(10 ** rng.uniform(3, 5.3))))
        return b'{"outer":[' + points + b"]}"
    if kind == 6:
        return pick(
            rng, [b"", b"\xff\xfe", b"\0" * 100, b"NaN", b"\xef\xbb\xbf{}", b'{"outer": NaN}', b"1e999", b'"\\ud800"']
        )
    return hostile_text(rng).encode(errors="surrogateescape")


def ranges(rng: np.random.Generator, folder: Path) -> Attempt:
    """Read boundary conditions and seconds as text."""
    del folder
    problem = pick(rng, PROBLEMS)
    names = {"elasticity": ["fix_x", "fix_y", "force_x", "force_y"], "heat": ["dirichlet", "times"]}.get(
        problem, ["dirichlet"]
    )
    terms: dict[str, Any] = {}
    for name in names if chance(rng, 0.5) else [pick(rng, names)]:
        if name == "times":
            terms[name] = draw_seconds(rng)
        else:
            pieces = [draw_range(rng, valued=name.startswith("force")) for _ in range(int(pick(rng, [1, 1, 2, 3, 20])))]
            terms[name] = ",".join(pieces)
    if chance(rng, 0.15):
        name = pick(rng, names)
        terms[name] = pick(
            rng, [hostile_text(rng), long_range(rng), ",".join(["outer"] * int(10 ** rng.uniform(1, 5)))]
        )
    geometry: Any = pick(rng, ["star+hole", "arrow", "y", "triangle+hole", "random:3+topology", "random:5"])
    if chance(rng, 0.1):
        geometry = pick(
            rng, [hostile_text(rng), "random:", "random:-1", "random:1e9", "random:3+", "star+holes", 3, None]
        )
    text = f"read_case({problem!r}, {short(geometry, 40)}, {short(terms, 300)})"

    def run() -> None:
        case = disol.read_case(problem, geometry, resolution=16, **terms, conventions="paper")
        if not np.isfinite(disol.solve_exact(case, device="cpu").field).all():
            raise WrongAnswer("a solution that is not finite")
        check_cut(problem, geometry)

    return Attempt(text, run)


def check_cut(problem: str, geometry: Any) -> None:
    """Require that two ranges that follow each other hold what their union holds."""
    name = "fix_x" if problem == "elasticity" else "dirichlet"
    other: dict[str, Any] = {"fix_y": "outer"} if problem == "elasticity" else {}
    whole, cut = (
        disol.read_case(problem, geometry, resolution=16, **(other | {name: text}), conventions="paper").terms[name]
        for text in ("outer:0.1-0.6", "outer:0.1-0.35,outer:0.35-0.6")
    )
    if not np.array_equal(whole, cut):
        raise WrongAnswer("two ranges that follow each other do not hold what their union holds")


def draw_range(rng: np.random.Generator, valued: bool) -> str:
    """Write a range of a loop, mostly as it should be."""
    if chance(rng, 0.8):
        low, high = rng.random(2)
        text = pick(rng, ["outer", f"outer:{low:.3f}-{high:.3f}", f"outer:{low:.2g}-1", f" OUTER:0-{high:.6f} "])
        return f"{text.rstrip()}={rng.normal():.3g}" if valued else text
    loop = pick(rng, ["outer", "hole1", "hole2", "outer2", "hole", "outer0", "outer-1", ""])
    ends = [pick(rng, ["0.2", "0", "1", ".5", "1e-3", "1.5", "-0.1", "nan", "1e999", "5e-324", ""]) for _ in range(2)]
    text = loop if chance(rng, 0.2) else f"{loop}:{ends[0]}-{ends[1]}"
    if valued or chance(rng, 0.05):
        text += f"={pick(rng, ['1', '-1', '2.5e-3', '1e308', '-1e-320', '', 'x', '1e999', '0', '+1'])}"
    return text


def long_range(rng: np.random.Generator) -> str:
    """Write a range with very many digits."""
    digits = "1" * int(10 ** rng.uniform(2, 5))
    return pick(
        rng,
        [
            f"outer:0.{digits}-0.9",
            f"outer:{digits}",
            f"outer:{digits}.{digits}-1",
            f"outer{digits}",
            digits,
            f"outer:0-1={digits}e",
        ],
    )


def draw_seconds(rng: np.random.Generator) -> str:
    """Write seconds separated by commas, mostly as they should be."""
    if chance(rng, 0.7):
        return ",".join(str(2 * int(rng.integers(0, 30))) for _ in range(int(rng.integers(1, 4))))
    return pick(
        rng, ["1000", "1002", "2,3", "1e15", "nan", "-2", "", ",", "2,,4", "2.0", "1e-9", "inf", "1e999", "2;4"]
    )


OPERATORS = ["+", "-", "*", "/", "**"]
COMPARISONS = ["<", "<=", ">", ">="]
FUNCTIONS = {
    1: [
        "sin",
        "cos",
        "tan",
        "arcsin",
        "arccos",
        "arctan",
        "sinh",
        "cosh",
        "tanh",
        "exp",
        "log",
        "sqrt",
        "abs",
        "sign",
        "floor",
    ],
    2: ["minimum", "maximum", "hypot", "arctan2"],
    3: ["where"],
}


FORBIDDEN = [  # pieces of Python that are no formula
    *(
        "__import__('os').system('touch hacked')",
        "open('hacked','w')",
        "exec('1')",
        "print(x)",
        "().__class__",
        "x.real",
    ),
    *("e.e", "1 .real", "x[0]", "[x]", "{x}", "x,y", "f'{x}'", "lambda: 1", "x if x else y", "x := 1", "(yield)"),
    *("await x", "x; y", "x\ny", "x and y", "x == y", "not x", "~x", "x ^ 2", "x % 2", "x // 2", "x @ y", "1j", "'a'"),
    *("sin", "sin()", "sin(x, y)", "sin(x=1)", "sin(*x)", "True", "None", "...", "0x10", "1_0", "1e400", "nan"),
    *("x" * 300, "9" * 480),
]


def formulas(rng: np.random.Generator, folder: Path) -> Attempt:
    """Read formulas: of the grammar, whose values Python itself knows, and hostile ones."""
    del folder
    if chance(rng, 0.6):
        numbers: list[float] = []
        named = draw_formula(rng, int(rng.integers(0, 5)), numbers)
        text = named
        for place in reversed(range(len(numbers))):
            text = text.replace(f"n{place}_", written(numbers[place]))
        return Attempt(f"formula {short(text)}", lambda: check_formula(text, named, numbers))
    text = draw_odd_formula(rng)
    terms: dict[str, Any] = {pick(rng, ["source", "initial"]): text}

    def run() -> None:
        case = disol.read_case("heat", "star+hole", resolution=16, **terms, conventions="paper")
        if not np.isfinite(case.inputs).all():
            raise WrongAnswer("channels that are not finite")

    return Attempt(f"read_case with {short(terms)}", run)


def written(number: float) -> str:
    """Write a number as people do."""
    return str(int(number)) if number == int(number) else repr(number)


def draw_formula(rng: np.random.Generator, depth: int, numbers: list[float]) -> str:
    """Write a formula of the grammar, with names for its numbers."""
    if depth == 0:
        if chance(rng, 0.4):
            numbers.append(
                float(pick(rng, [2.0, 3.0, 0.5, 1.0, round(float(rng.uniform(0.01, 9)), 3), 1e-3, 0.0, 12.0]))
            )
            return f"n{len(numbers) - 1}_"
        return pick(rng, ["x", "y", "x", "y", "pi", "e"])
    kind = int(rng.integers(7))
    if kind in FUNCTIONS:
        pieces = ", ".join(draw_formula(rng, depth - 1, numbers) for _ in range(kind))
        return f"{pick(rng, FUNCTIONS[kind])}({pieces})"
    if kind == 0:
        return f"-{draw_formula(rng, depth - 1, numbers)}"
    left, right = (draw_formula(rng, depth - 1, numbers) for _ in range(2))
    if kind == 4:  # plus 0.0, for Python computes with its booleans as with integers
        return f"((({left}) {pick(rng, COMPARISONS)} ({right})) + 0.0)"
    joined = f"{left} {pick(rng, OPERATORS)} {right}"
    return f"({joined})" if chance(rng, 0.5) else joined


def check_formula(text: str, named: str, numbers: list[float]) -> None:
    """Require the values that Python gives to the same formula."""
    expression = read_expression(text)
    y, x = (np.indices((5, 6)) + 0.5) / 5
    names: dict[str, Any] = {name: getattr(np, name) for names in FUNCTIONS.values() for name in names}
    names |= {f"n{place}_": np.float64(number) for place, number in enumerate(numbers)}
    names |= {"x": x, "y": y, "pi": np.float64(np.pi), "e": np.float64(np.e)}
    with np.errstate(all="ignore"):
        expected = np.broadcast_to(eval(named, {"__builtins__": {}}, names), x.shape)
    found = expression(x, y)
    if not np.array_equal(found, expected, equal_nan=True):
        raise WrongAnswer(f"{text} at x = y = 0.1: {found[0, 0]!r}, Python says {expected[0, 0]!r}")
    disol.read_case("poisson", "arrow", resolution=16, source=text, conventions="paper")


def draw_odd_formula(rng: np.random.Generator) -> str:
    """Write a formula that is long, deep, forbidden, or none."""
    kind, many = rng.integers(10), int(10 ** rng.uniform(0.5, 4))
    if kind == 0:
        return "(" * many + "x" + ")" * many
    if kind == 1:
        return "-" * many + "x"
    if kind == 2:
        return "+".join(["x"] * many)
    if kind == 3:
        return "**".join(["9"] * min(many, 200))
    if kind == 4:
        return pick(rng, FORBIDDEN)
    if kind == 5:
        return f"x{pick(rng, OPERATORS)}" * min(many, 249) + "y"
    if kind == 6:
        return "sin(" * min(many, 600) + "x" + ")" * min(many, 600)
    if kind == 7:
        return mutated(rng, b"exp(-12*((x - 0.5)**2 + (y - 0.5)**2)) + 1/3").decode(errors="replace")
    if kind == 8:
        return (
            f"{pick(rng, ['1e308', '-0', 'inf', '1e-999', '7' * 310])} * x"
            if chance(rng, 0.3)
            else f"1/(x - {rng.integers(16) / 32 + 1 / 32})"
        )
    return hostile_text(rng)
