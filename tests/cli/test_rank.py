"""`disol rank`: many geometries, one table, one file, one picture; what is wrong is one line each."""

import csv
import json
from pathlib import Path

from printed import SQUARE

import disol

SHAPES = ("arrow", "star", "star+hole", "y", "random:3")
GIVEN = {"dirichlet": "outer", "source": "1 + x"}
OPTIONS = ("--resolution", "24", "--dirichlet", "outer", "--source", "1 + x")


def rows_of(folder: Path) -> list[dict[str, str]]:
    with (folder / "ranking.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_six_shapes_are_ranked_as_their_solutions_are(command, tmp_path: Path) -> None:
    (tmp_path / "square.json").write_text(json.dumps(SQUARE))
    shapes = [*SHAPES, "square.json"]
    result = command("rank", *shapes, *OPTIONS, "--descending")
    assert result.returncode == 0, result.stderr
    rows = rows_of(tmp_path / "ranking")
    found = {}
    for shape in shapes:
        case = disol.read_case("poisson", shape, resolution=24, conventions="physical", **GIVEN)
        found[shape] = abs(disol.solve_exact(case).field).max()
    assert [row["name"] for row in rows] == sorted(shapes, key=found.__getitem__, reverse=True)
    assert {row["name"]: float(row["value"]) for row in rows} == found
    assert [line.split()[:2] for line in result.stdout.splitlines()[1:7]] == [
        [row["rank"], row["name"]] for row in rows
    ]
    assert (tmp_path / "ranking" / "ranking.png").stat().st_size > 10_000
    assert "written ranking/ranking.csv, ranking/ranking.png" in result.stdout


def test_a_folder_stands_for_its_outlines_and_what_cannot_be_read_is_a_line_each(command, tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a.json").write_text(json.dumps(SQUARE))
    (tmp_path / "parts" / "b.json").write_text("{}")
    (tmp_path / "parts" / "notes.txt").write_text("none")
    result = command("rank", "parts", "nobody", *OPTIONS, "--out", "found")
    assert result.returncode == 0
    assert [line.split(": ")[:2] for line in result.stderr.splitlines()] == [
        ["error", "parts/b.json"],
        ["error", "nobody"],
    ]
    assert [(row["name"], row["rank"]) for row in rows_of(tmp_path / "found")] == [
        ("parts/a.json", "1"),
        ("parts/b.json", ""),
        ("nobody", ""),
    ]


def test_bodies_are_ranked_by_how_far_they_move(command, tmp_path: Path) -> None:
    given = ("--fix-x", "outer:0.5-0.7", "--fix-y", "outer:0.5-0.7", "--force-y", "outer:0-0.1=1", "--resolution", "24")
    result = command("rank", "star", "arrow", "--problem", "elasticity", "--by", "max_displacement", *given)
    assert result.returncode == 0, result.stderr
    values = [float(row["value"]) for row in rows_of(tmp_path / "ranking")]
    assert 0 < values[0] < values[1]


def test_what_is_wrong_with_the_call_is_one_line_and_nothing_is_written(command, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for arguments, message in (
        (("star", "--by", "beauty"), "--by must be max"),
        (("empty",), "empty holds no outlines, files that end in .json or .geojson."),
        (("star", "--problem", "nothing"), "nothing"),
        (("star", "--conventions", "nothing"), "nothing"),
        (("star", "--workers", "-1"), "--workers must not be negative"),
        (("star", "--device", "tpu"), "tpu"),
    ):
        result = command("rank", *arguments)
        assert result.returncode == 2
        assert message in result.stderr
        assert len(result.stderr.splitlines()) == 1
    result = command("rank", "star", "arrow", "--source", "1 +")
    assert result.returncode == 2
    assert result.stderr.splitlines()[0].startswith("error: star: Cannot read")
    assert not (tmp_path / "ranking").exists()


def test_a_ranking_is_replaced_only_if_asked(command, tmp_path: Path) -> None:
    (tmp_path / "ranking").mkdir()
    (tmp_path / "ranking" / "ranking.csv").write_text("kept")
    result = command("rank", "star", *OPTIONS)
    assert result.returncode == 2
    assert "ranking holds a ranking already. Choose another --out, or give --overwrite." in result.stderr
    assert command("rank", "star", *OPTIONS, "--overwrite").returncode == 0
    assert len(rows_of(tmp_path / "ranking")) == 1


def test_a_dollar_in_a_name_is_no_formula(command, tmp_path: Path) -> None:
    (tmp_path / "a$x_{$.json").write_text(json.dumps(SQUARE))
    result = command("rank", "a$x_{$.json", *OPTIONS)
    assert result.returncode == 0, result.stderr
    assert rows_of(tmp_path / "ranking")[0]["name"] == "a$x_{$.json"


def test_where_all_fail_each_reason_is_told_once(command, tmp_path: Path) -> None:
    result = command("rank", "one.json", "two.json", *OPTIONS)
    assert result.returncode == 2
    assert [line.partition(": Cannot")[0] for line in result.stderr.splitlines()] == [
        "error: one.json", "error: two.json", "error: No geometry could be ranked."
    ]  # fmt: skip
    assert not any(tmp_path.iterdir())
