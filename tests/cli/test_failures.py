"""What the machine refuses is one line that names the command and the file; a bug keeps its traceback."""

import os
import resource
import subprocess
import sys
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import disol
from disol.cli import main

LONG = "a" * 300


@contextmanager
def small_files(most_bytes: int):
    """Let the system refuse larger files, as a device without space would."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (OSError(28, "No space left on device", "b.npz"), "draw failed: b.npz: No space left on device."),
        (OSError("something odd"), "draw failed: something odd."),
        (PermissionError(13, "Permission denied", Path("c")), "draw failed: c: Permission denied."),
        (MemoryError(), "draw failed: out of memory."),
        (MemoryError("Unable to allocate 7 GiB"), "draw failed: out of memory, Unable to allocate 7 GiB."),
        (RecursionError("depth exceeded"), "draw failed: something is nested too deeply, depth exceeded."),
    ],
)
def test_what_the_machine_refuses_is_one_line(error, line, command, monkeypatch):
    def refuse(*arguments, **options):
        raise error

    monkeypatch.setattr("disol.cases.Case.draw", refuse)
    result = command("draw", "poisson")
    assert result.returncode == 2
    assert result.stderr == f"error: {line}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ["solve", "--model", LONG],
        ["solve", "--problem", LONG],
        ["solve", "--geometry", LONG],
        ["solve", "--geometry", f"{LONG}.png"],
        ["solve", "--geometry", f"{LONG}.json"],
        ["solve", "--dirichlet", LONG],
        ["solve", "--source", LONG],
        ["solve", "--source", "~" * 480 + "x"],
        ["solve", "--problem", "heat", "--time", LONG],
        ["solve", "--out", LONG],
        ["solve", "--problem", "heat", "--animate", f"{LONG}.gif"],
        ["draw", "poisson", "--out", f"{LONG}.npz"],
        ["draw", "poisson", "--shift", LONG],
        ["info", LONG],
        ["train", "poisson", "--data", LONG, "--out", "run"],
        ["train", "poisson", "--data", "a.h5", "--out", "run", "--model", LONG],
        ["train", "poisson", "--data", "a.h5", "--out", "run", "--start", LONG],
        ["train", "poisson", "--data", "a.h5", "--out", "run", "--config", LONG],
        ["evaluate", LONG, "--data", "a.h5"],
        ["onnx", LONG, "--out", "a.onnx"],
        [LONG],
    ],
    ids=lambda arguments: " ".join(arguments).replace(LONG, "LONG").replace("~" * 480, "~"),
)
def test_a_name_of_300_letters_is_refused_in_one_line(arguments, command, tmp_path):
    result = command(*arguments)
    assert result.returncode == 2
    assert len(result.stderr.strip().splitlines()) == 1
    assert result.stderr.startswith("error: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("problem", "most_bytes", "refused"),
    [("poisson", 10, "solution.png"), ("poisson", 4000, "solution.npz"), ("heat", 4000, "solution.gif")],
)
def test_a_solution_that_does_not_fit_on_the_device_is_one_line(problem, most_bytes, refused, solve, request):
    if problem == "poisson":
        request.getfixturevalue("undrawn")  # an empty picture is small
    with small_files(most_bytes):
        result = solve(
            "--geometry",
            "square.json",
            "--time" if problem == "heat" else "--source",
            "2",
            "--out",
            "here",
            problem=problem,
        )
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: Cannot write here/{refused}: File too large. Free some space")
    assert len(result.stderr.splitlines()) == 1
    assert refused not in [path.name for path in Path("here").iterdir()]


@pytest.mark.parametrize("ending", ["npz", "png", "pdf", "svg"])
def test_a_drawn_case_that_does_not_fit_on_the_device_is_one_line(ending, command):
    with small_files(100):
        result = command("draw", "poisson", "--resolution", "16", "--out", f"here.{ending}")
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: Cannot write here.{ending}: File too large.")
    assert len(result.stderr.splitlines()) == 1
    assert not list(Path().iterdir())


def test_a_vtu_that_does_not_fit_on_the_device_is_refused(tmp_path):
    exact = disol.solve_exact(disol.draw("poisson", resolution=16, conventions="paper"))
    with small_files(100), pytest.raises(disol.DisolError, match=r"Cannot write .*File too large"):
        exact.save(tmp_path / "here.vtu")
    assert not list(tmp_path.iterdir())


def start(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "disol", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, env=environment, **options)


def test_a_standard_output_without_space_is_one_line(tmp_path):
    with Path("/dev/full").open("w") as full:
        results = [start("--version", stdout=full)]
    with small_files(5), (tmp_path / "short").open("w") as short:
        results.append(start("problems", stdout=short))
    for result, message in zip(
        results, ["disol failed: No space left", "problems failed: File too large"], strict=True
    ):
        assert result.returncode == 2
        assert result.stderr.startswith(f"error: {message}")
        assert len(result.stderr.splitlines()) == 1


def test_a_reader_that_has_stopped_is_no_error():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as closed:
        result = start("--version", stdout=closed)
    assert (result.returncode, result.stderr) == (1, "")


def damaged_tiff() -> bytes:
    stream = BytesIO()
    Image.fromarray(np.arange(3 * 24 * 24, dtype=np.uint8).reshape(24, 24, 3)).save(
        stream, "TIFF", compression="tiff_adobe_deflate"
    )
    content = bytearray(stream.getvalue())
    content[40:60] = bytes(20)
    return bytes(content)


def test_a_damaged_picture_is_one_line_though_its_decoder_speaks_by_itself(capfd, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a.tif").write_bytes(damaged_tiff())
    with pytest.raises(disol.DisolError):
        disol.read_case("poisson", "a.tif", conventions="paper")
    assert "Decod" in capfd.readouterr().err  # which libtiff writes
    monkeypatch.setattr(sys, "argv", ["disol", "solve", "--geometry", "a.tif"])
    with pytest.raises(SystemExit):
        main()
    printed = capfd.readouterr().err
    assert printed.startswith("error: Cannot read a.tif as a picture: ")
    assert len(printed.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["draw", "poisson", "--alpha", "0,8"], "got '0,8'"),
        (["draw", "poisson", "--alpha=0,8"], "got '0,8'"),
        (["generate", "poisson", "--cases", "1e3", "--out", "a.h5"], "got '1e3'"),
        (["solve", "star"], "Give it with its option, as --help lists them, and quote texts with spaces."),
        (["solve", "--source", "gausian"], "There is no field 'gausian'. Use zero, constant, ramp,"),
        (
            ["solve", "--geometry", "parts"],
            "Or give random:SEED, or a file that ends in .json, .geojson (polygons), and .png",
        ),
        (["solve", "--out", "file.txt"], "file.txt is a file, not a folder. Choose another --out."),
        (["rank", "star", "--out", "file.txt/a"], "file.txt is a file, not a folder. Choose another --out."),
    ],
    ids=lambda each: each if isinstance(each, str) else " ".join(each),
)
def test_a_mistake_is_told_with_what_to_do(arguments, told, command):
    Path("parts").mkdir()
    Path("file.txt").touch()
    result = command(*arguments)
    assert result.returncode == 2
    assert told in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_folder_without_permission_is_told_before_anything_is_solved(command, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *arguments: False)
    result = command("solve", "--out", "solved")
    assert result.stderr.startswith("error: Cannot write into")
    assert not Path("solved").exists()
