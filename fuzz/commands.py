"""Inputs of the command: options of any kind, with one line and exit code 2 for what is wrong."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from attempts import Attempt, chance, hostile_text, mutated, pick, short
from geometries import draw_range, draw_seconds, paint
from stored import run_template, store_of

OPTIONS: dict[str, dict[str, list[str]]] = {
    "solve": {
        "--problem": ["poisson", "heat", "elasticity", "x"],
        "--geometry": ["star+hole", "part.png", "outline.json", "random:3+all", "nowhere.png"],
        "--dirichlet": [],
        "--source": ["gaussian", "sin(6*x)*y", "1/(x-0.5)", "x" * 300],
        "--time": [],
        "--seed": ["1", "-1", "9" * 40],
        "--resolution": ["16", "17", "0", "4097", "x"],
        "--device": ["cpu", "cuda", "tpu"],
        "--out": ["solution", "x" * 300, "/dev/full", "/proc/x", "a/b/c"],
    },
    "draw": {
        "--seed": ["0", "7", "-3", "1e3"],
        "--index": ["0", "5", "-1"],
        "--shift": ["all", "topology=0.3", "boundary=5", "shape:star+hole", "source=1e9", "x"],
        "--resolution": ["16", "32", "5"],
        "--element": ["q1", "p1", "q2"],
        "--alpha": ["0.5", "2", "nan", "-1"],
        "--conventions": ["paper", "published", "physical", "x"],
        "--out": [
            "case.png",
            "case.npz",
            "case.pdf",
            "case.xyz",
            "/dev/full",
            "/dev/full.npz",
            "x" * 300 + ".png",
            "no/such/case.npz",
        ],
    },
    "info": {},
    "export": {"--out": ["cases.npz", "cases.txt", "/dev/full.npz"], "--split": ["all", "train", "x"]},
    "evaluate": {
        "--data": ["cases.h5", "nowhere.h5"],
        "--out": ["results", "cases.h5"],
        "--split": ["all", "x"],
        "--device": ["cpu"],
    },
    "generate": {
        "--cases": ["1", "2", "0", "-1", "x", "9" * 30],
        "--out": ["new.h5", "cases.h5", "/proc/x.h5"],
        "--resolution": ["16"],
        "--workers": ["0"],
    },
    "problems": {},
    "models": {},
}
ARGUMENTS = {
    "draw": ["poisson", "elasticity", "heat", "x"],
    "generate": ["poisson", "heat", "x"],
    "info": ["cases.h5", "part.png", "nowhere.h5", "/dev/zero", "."],
    "export": ["cases.h5", "part.png"],
    "evaluate": ["run", "poisson", "x", "/dev/null"],
}


def commands(rng: np.random.Generator, folder: Path) -> Attempt:
    """Call the command with right and odd options, in a folder with files of all kinds."""
    (folder / "cases.h5").write_bytes(store_of("poisson") if chance(rng, 0.7) else mutated(rng, store_of("poisson")))
    (folder / "part.png").write_bytes(paint(rng, "PNG"))
    (folder / "outline.json").write_text('{"outer": [[0.1, 0.1], [0.9, 0.1], [0.5, 0.9]]}')
    (folder / "run").symlink_to(run_template() / "run")
    name = pick(
        rng, ["solve", "draw", "draw", "info", "info", "export", "export", "evaluate", "generate", "problems", "models"]
    )
    words = [name] + ([pick(rng, ARGUMENTS[name])] if name in ARGUMENTS else [])
    for option, values in OPTIONS[name].items():
        if (
            option in ("--cases", "--device", "--workers")
            or (option == "--resolution" and name in ("solve", "generate"))
            or chance(rng, 0.4)
        ):
            usual = values or [draw_seconds(rng) if option == "--time" else draw_range(rng, valued=False)]
            value = (
                values[0]
                if option in ("--device", "--workers", "--resolution") and chance(rng, 0.8)
                else pick(rng, usual)
            )
            words += [option, hostile_text(rng) if chance(rng, 0.05) else value]
    if chance(rng, 0.1):
        words.insert(
            int(rng.integers(len(words) + 1)),
            pick(rng, ["--nothing", "-h", "--version", "", "-", hostile_text(rng)[:50]]),
        )
    words = [word.replace("\0", "") for word in words]  # which no system passes on
    return Attempt(f"disol {short(' '.join(words), 300)}", called(words))


def called(words: list[str]) -> Callable[[], None]:
    """Call the command in this process."""

    def run() -> None:
        from disol.cli import main

        before, sys.argv = sys.argv, ["disol", *words]
        try:
            main()
        finally:
            sys.argv = before

    return run
