"""Pictures, polygons and texts from strangers: whatever they hold, they are read, or refused in one line, cheaply."""

import json
import os
import struct
import zlib
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from disol.cases import read_case
from disol.errors import DisolError
from disol.geometry.drawings import MOST_BYTES, MOST_PIXELS, MOST_SCANS, MOST_SEGMENTS, read_drawing
from disol.geometry.outline_files import MOST_HOLES, MOST_POINTS_TOGETHER, read_outline
from disol.grid import Grid

SQUARE = [[0.25, 0.25], [0.75, 0.25], [0.75, 0.75], [0.25, 0.75]]


def painting() -> Image.Image:
    """A black square on white, its top edge red."""
    pixels = np.full((24, 24, 3), 255, np.uint8)
    pixels[4:20, 4:20] = 0
    pixels[4, 4:20] = [255, 0, 0]
    return Image.fromarray(pixels)


def encoded(picture: Image.Image, kind: str, **options) -> bytes:
    stream = BytesIO()
    picture.save(stream, kind, **options)
    return stream.getvalue()


def written(folder, content: bytes, name: str = "a.png"):
    (folder / name).write_bytes(content)
    return folder / name


FURTHER = {"save_all": True, "append_images": [painting().rotate(90)]}
FILES = {
    "png": encoded(painting(), "PNG"),
    "png of several": encoded(painting(), "PNG", **FURTHER),
    "png of a palette": encoded(painting().convert("P"), "PNG"),
    "gif": encoded(painting(), "GIF"),
    "gif of several": encoded(painting(), "GIF", **FURTHER),
    "jpeg": encoded(painting(), "JPEG"),
    "jpeg of several scans": encoded(painting(), "JPEG", progressive=True),
    "tiff": encoded(painting(), "TIFF"),
    "tiff of several": encoded(painting(), "TIFF", **FURTHER),
    "tiff, packed": encoded(painting(), "TIFF", compression="packbits"),
    "bmp": encoded(painting(), "BMP"),
    "webp": encoded(painting(), "WEBP", lossless=True),
}


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """Cut, repeat, drop and overwrite pieces of a file; checksums of a PNG are made right again."""
    piece = bytearray(content)
    for _ in range(rng.integers(1, 6)):
        place, length = int(rng.integers(len(piece))), int(rng.integers(1, 40))
        match rng.integers(5):
            case 0:
                piece[place] = rng.integers(256)
            case 1:
                piece[place : place + 4] = rng.choice([b"\0\0\0\0", b"\xff\xff\xff\xff", b"\x7f\xff", b"\0\0\xc3\x50"])
            case 2:
                piece[place:place] = piece[place : place + length]
            case 3:
                del piece[place : min(place + length, len(piece) - 1)]
            case 4:
                del piece[max(place, 1) :]
    return with_checksums(bytes(piece)) if content.startswith(b"\x89PNG") else bytes(piece)


def with_checksums(content: bytes) -> bytes:
    fixed, place = bytearray(content), 8
    while place + 12 <= len(content):
        end = place + 8 + int.from_bytes(content[place : place + 4], "big")
        fixed[end : end + 4] = struct.pack(">I", zlib.crc32(content[place + 4 : end]))[: max(0, len(content) - end)]
        place = end + 4
    return bytes(fixed)


@pytest.mark.parametrize("kind", FILES)
def test_a_damaged_picture_is_read_or_refused_in_one_line(kind, tmp_path, capfd):
    num_read, messages = 0, []
    for seed in range(60):
        path = written(tmp_path, mutated(FILES[kind], np.random.default_rng([seed, len(kind)])))
        try:
            read_drawing(path).mask(Grid(16, 16))
            num_read += 1
        except DisolError as error:
            messages.append(str(error))
    assert num_read
    assert messages
    assert all(str(tmp_path / "a.png") in message and "\n" not in message for message in messages)


@pytest.mark.parametrize("kind", [kind for kind in FILES if "several" in kind and "scans" not in kind])
def test_of_several_pictures_the_first_one_counts_and_that_is_said(kind, tmp_path):
    path = written(tmp_path, FILES[kind])
    drawing = read_drawing(path)
    assert drawing.is_first
    assert (drawing.mask(Grid(24, 24)) == (np.asarray(painting())[..., 1] == 0)).all()
    case = read_case("poisson", path, resolution=24, conventions="paper")
    assert case.notes == (f"{path} holds several pictures: the first one counts",)
    assert not read_drawing(written(tmp_path, FILES["png"])).is_first


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int, height: int, extra: bytes = b"") -> bytes:
    """A grey picture with pieces between its header and its pixels, of which there are none."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + extra + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def tiff_of_tiles(side: int) -> bytes:
    tags = [
        (256, 10),
        (257, 10),
        (258, 8),
        (259, 5),
        (262, 1),
        (277, 1),
        (322, side),
        (323, side),
        (324, 200),
        (325, 9),
    ]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags)
    return b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(100)


def gif(width: int, height: int) -> bytes:
    frame = b"," + struct.pack("<HHHHB", 0, 0, width, height, 0)
    return b"GIF89a" + struct.pack("<HHBBB", 10, 10, 0x80, 0, 0) + bytes(6) + frame + b"\x02\x02\x4c\x01\0;"


def bmp(width: int, height: int, compression: int = 0) -> bytes:
    header = struct.pack("<IiiHHIIiiII", 40, width, height, 1, 8, compression, 0, 0, 0, 256, 0)
    return b"BM" + struct.pack("<IHHI", 1078, 0, 0, 1078) + header + bytes(1024)


def webp(side: int) -> bytes:
    canvas = b"VP8X" + struct.pack("<I", 10) + b"\x02\0\0\0" + 2 * struct.pack("<I", side - 1)[:3]
    pieces = canvas + b"ANIM" + struct.pack("<I", 6) + bytes(6)
    return b"RIFF" + struct.pack("<I", 4 + len(pieces)) + b"WEBP" + pieces


@pytest.mark.parametrize(
    "content",
    [
        png(50_000, 50_000),
        png(MOST_PIXELS + 1, 1),
        gif(60_000, 5),
        bmp(2**31 - 1, 9),
        webp(65_000),
        tiff_of_tiles(40_000),
    ],
    ids=["png", "oblong png", "gif", "bmp", "webp", "tiles of a tiff"],
)
def test_a_picture_that_is_too_large_is_refused_by_its_header(content, tmp_path, monkeypatch):
    monkeypatch.setattr(Image.Image, "load", None)
    with pytest.raises(DisolError, match=r"a\.png is wider or higher than 4096 pixels\. Make it smaller\."):
        read_drawing(written(tmp_path, content))


def text_bomb() -> bytes:
    return chunk(b"iTXt", b"k\0\1\0\0\0" + zlib.compress(bytes(20_000_000)))


def jpeg_of_scans(count: int) -> bytes:
    content = FILES["jpeg of several scans"]
    last = content.rfind(b"\xff\xda")
    return content[:-2] + count * content[last:-2] + content[-2:]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (png(9, 9, text_bomb()), "too large"),
        (png(9, 9, (MOST_SEGMENTS + 1) * chunk(b"prVt", b"")), "more than 20000 segments"),
        (b"\xff\xd8" + (MOST_SEGMENTS + 1) * b"\xff\xe1\0\2", "more than 20000 segments"),
        (b"\xff\xd8" + (MOST_SEGMENTS + 9) * b"\xff" + FILES["jpeg"][2:], "more than 20000 segments"),
        (b"\xff\xd8" + (MOST_SEGMENTS + 9) * b"\xff\xd0" + FILES["jpeg"][2:], "more than 20000 segments"),
        (FILES["gif"][:13] + (MOST_SEGMENTS + 1) * b"!\xfe\1x\0" + FILES["gif"][13:], "more than 20000 segments"),
        (jpeg_of_scans(MOST_SCANS), "more than 200 scans"),
        (b"\xff\xd8" + 101 * (b"\xff\xe1\xff\xffExif\0\0" + bytes(2**16 - 9)), "more than 100 segments of EXIF"),
        (bmp(9, 9, compression=1), "run-length encoded BMP files are not read"),
        (encoded(Image.fromarray(np.full((9, 9), 200.0, np.float32)), "TIFF"), r"must lie in \[0, 1\]"),
        (encoded(Image.fromarray(np.full((9, 9), 1e6, np.int32)), "TIFF"), r"must lie in \[0, 65535\]"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "it is no picture"),
    ],
    ids=[
        "text",
        "PNG chunks",
        "JPEG segments",
        "JPEG fill",
        "JPEG restarts",
        "GIF comments",
        "JPEG scans",
        "JPEG EXIF",
        "BMP runs",
        "floats",
        "32 bits",
        "PostScript",
    ],
)
def test_what_a_decoder_would_not_come_back_from_is_refused(content, reason, tmp_path):
    with pytest.raises(DisolError, match=rf"Cannot read .*a\.png.*{reason}.* Save it again as PNG\."):
        read_drawing(written(tmp_path, content))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "F", "I;16"])
def test_black_is_the_domain_in_every_mode_of_colour(mode, tmp_path):
    grey = np.full((24, 24), 255, np.uint8)
    grey[4:20, 4:20] = 0
    deep = {"F": (grey / 255).astype(np.float32), "I;16": grey.astype(np.uint16) * 257}
    picture = Image.fromarray(deep[mode]) if mode in deep else Image.fromarray(grey).convert("RGB").convert(mode)
    kind = "TIFF" if mode in ("CMYK", "YCbCr", "F") else "PNG"
    path = written(tmp_path, encoded(picture, kind))
    assert (read_drawing(path).mask(Grid(24, 24)) == (grey == 0)).all()


@pytest.mark.parametrize("read", [read_drawing, read_outline])
def test_only_regular_files_are_read(read, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "endless").symlink_to("/dev/zero")
    for name, kind in (("pipe", "a pipe"), ("endless", "a device"), (".", "a folder")):
        with pytest.raises(DisolError, match=f"it is {kind}, not a regular file"):
            read(tmp_path / name)
    with pytest.raises(DisolError, match="File name too long"):
        read(tmp_path / ("a" * 300))
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(DisolError, match="bytes, at most"):
        read(tmp_path / "large")


def polygons(folder, content: object):
    return written(folder, content if isinstance(content, bytes) else json.dumps(content).encode(), "a.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 100_000, "nested too deeply"),
        (b'{"outer": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"a": ' * 100_000, "nested too deeply"),
        (b'{"outer": [[0, 0], [1' + 5000 * b"0" + b", 0], [1, 1]]}", "is not JSON"),
        ({"outer": [[0, 0], [10**400, 0], [1, 1]]}, "not finite, or beyond 1e"),
        ({"outer": [[0, 0], [1e300, 0], [1, 1]]}, "not finite, or beyond 1e"),
        ({"outer": [[-1e-320, 0], [1e-320, 0], [0, 1e-320]]}, "no area"),
        ({"outer": ["01", "10", "11"]}, "list of points"),
        ({"outer": [[0, 0], [True, False], [1, 1]]}, "list of points"),
        ({"outer": {"01": 1, "10": 2, "11": 3}}, "list of points"),
        ({"outer": [[[[[[[[0]]]]]]], [1, 0], [1, 1]]}, "list of points"),
        ({"outer": SQUARE, "holes": [SQUARE] * (MOST_HOLES + 1)}, "at most 1000 holes, got 1001"),
        ({"outer": SQUARE, "holes": [[[0.5, 0.5]] * MOST_POINTS_TOGETHER]}, "at most 20000 points, got 20004"),
        ({"outer": SQUARE, "holes": [[[1e99, 0.5], [1e99, 1e98], [1e98, 0.6]]]}, "Hole 1 .* reaches outside"),
    ],
)
def test_polygons_that_would_cost_too_much_or_overflow_are_one_line(content, message, tmp_path):
    with pytest.raises(DisolError, match=message) as raised:
        read_outline(polygons(tmp_path, content))
    assert len(str(raised.value)) < 400


def test_a_thousand_holes_are_read_on_a_fine_grid(tmp_path):
    centres = 0.1 + 0.8 * (np.stack(np.meshgrid(*2 * [np.arange(31)]), axis=-1).reshape(-1, 1, 2) + 0.5) / 31
    angles = np.arange(12) / 12 * 2 * np.pi
    holes = centres + 0.008 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    outer = [[0.02, 0.02], [0.98, 0.02], [0.98, 0.98], [0.02, 0.98]]
    path = polygons(tmp_path, {"outer": outer, "holes": holes.tolist()})
    case = read_case("poisson", path, resolution=512, dirichlet="hole961", source="constant", conventions="paper")
    assert case.notes == ()
    assert case.origin["geometry"].endswith("hole11 (24 pixels) and 950 more")
    assert 0 < case.terms["dirichlet"].sum() < 30


def test_a_hole_that_a_grid_cuts_across_is_counted_by_its_parts(tmp_path):
    upper = [[0.3, 0.3], [0.7, 0.3], [0.52, 0.44], [0.505, 0.45], [0.505, 0.55], [0.52, 0.56]]
    lower = [[0.7, 0.7], [0.3, 0.7], [0.48, 0.56], [0.495, 0.55], [0.495, 0.45], [0.48, 0.44]]
    outer = [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]]
    path = polygons(tmp_path, {"outer": outer, "holes": [upper + lower]})
    (note,) = read_case("poisson", path, resolution=32, conventions="paper").notes
    assert note == f"hole 1 of {path} is too thin for this grid: it falls into 2 parts"


NUMBERS = st.floats() | st.integers() | st.floats(-1, 2) | st.sampled_from([0.0, -0.0, 1e308, 5e-324, 10**400])
POINTS = st.lists(st.lists(NUMBERS, min_size=2, max_size=2), max_size=8)
JSON = st.recursive(
    NUMBERS | st.text(max_size=5) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
RINGS = st.lists(POINTS | JSON, max_size=4)


@given(
    content=st.fixed_dictionaries({"outer": POINTS | JSON, "holes": RINGS | JSON})
    | st.fixed_dictionaries({"type": st.just("Polygon"), "coordinates": RINGS | JSON})
    | st.fixed_dictionaries({"type": st.just("Feature"), "geometry": JSON})
    | JSON
)
def test_any_json_is_a_case_or_one_clear_error(tmp_path_factory, content):
    path = polygons(tmp_path_factory.getbasetemp(), content)
    message = ""
    try:
        assert read_case("poisson", path, resolution=16, source="constant", conventions="paper").domain.any()
    except DisolError as error:
        message = str(error)
    assert "\n" not in message
    assert len(message) < 500


@given(
    radii=st.lists(st.floats(0.01, 1.0), min_size=3, max_size=12),
    place=st.tuples(st.floats(-1e50, 1e50), st.floats(-1e50, 1e50)),
    size=st.floats(1e-60, 1e60),
)
def test_a_polygon_around_a_point_is_read_at_any_size_and_place(tmp_path_factory, radii, place, size):
    angles = 2 * np.pi * np.arange(len(radii)) / len(radii)
    star = np.array(radii)[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    path = polygons(tmp_path_factory.getbasetemp(), {"outer": (size * star + place).tolist()})
    if size < 1e-9 * np.abs(place).max():  # far away a small polygon has the digits of its place alone
        return
    try:
        geometry, _ = read_outline(path)
    except DisolError as error:
        refused = str(error)
        assert "no area" in refused
        return
    assert ((geometry.outer.points >= 0) & (geometry.outer.points <= 1)).all()


WORDS = st.text(max_size=30) | st.text(alphabet="outerhl:0123456789.e-+=, xy*()sin", max_size=30)
GEOMETRIES = st.sampled_from(["star", "y+hole", "random:3+all", "random:", "shape:y", "", "a.json", ".png"]) | WORDS


@given(geometry=GEOMETRIES, dirichlet=WORDS, source=WORDS, initial=WORDS, times=WORDS)
def test_any_texts_are_a_case_or_one_clear_error(geometry, **terms):
    message = ""
    try:
        assert read_case("heat", geometry, resolution=16, **terms, conventions="paper").domain.any()
    except DisolError as error:
        message = str(error)
    assert "\n" not in message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"geometry": "a" * 5000}, "geometry must be a name or a path of at most 4096 characters, got 5000"),
        ({"geometry": "a" * 300}, "Unknown shape"),
        ({"geometry": "a" * 300 + ".png"}, "File name too long"),
        ({"geometry": "a\0.json"}, "Cannot read"),
        ({"geometry": "random:" + "9" * 5000}, "at most 4096"),
        ({"geometry": "random:" + "9" * 30}, "A random geometry is written like"),
        ({"times": [2, 8]}, r"times must be a text, got \[2, 8\]"),
        ({"source": 3.0}, "source must be a text, got 3.0"),
    ],
)
def test_a_wrong_text_is_refused_in_one_line(given, message):
    with pytest.raises(DisolError, match=message) as raised:
        read_case("heat", **given, conventions="paper")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("geometry", "message"),
    [
        ("part.step", "Cannot read part.step: geometries are read from .json, .geojson"),
        ({"outer": [[0, 0], [1000, 0], [1000, 1], [0, 1]]}, "No pixel of a 16 x 16 grid lies in the domain"),
    ],
)
def test_what_no_grid_shows_is_told_as_such(geometry, message):
    with pytest.raises(DisolError, match=message):
        read_case("poisson", geometry, resolution=16)
