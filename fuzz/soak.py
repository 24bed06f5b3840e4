"""A soak: mixed work in one process for an hour, with its memory, open files, processes and temporary files watched.

    python fuzz/soak.py --minutes 60

Rounds of solving, predicting, verifying, generating, reading, evaluating and plotting follow each other; each is
different. It passes if, after a warm-up, memory stays within 5 %, and neither open files nor processes nor temporary
files are left. The results are kept in a file every few seconds.
"""

import argparse
import gc
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path("build/fuzz")
WARM_UP = 0.25  # of the time: caches fill, libraries load, the allocator finds its size
PARTS = 6  # of the rest, whose medians are compared
ALLOWED = 0.05
SAVED_EVERY = 10.0  # seconds


def main(arguments: list[str] | None = None) -> int:
    """Work, watch, and say whether anything has leaked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=RESULTS / "soak.json", help="where results are kept")
    options = parser.parse_args(arguments)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    out, here = options.out.resolve(), Path.cwd()
    place = Path(tempfile.mkdtemp(prefix="disol-soak-"))
    temporary, folder = place / "temporary", place / "work"
    for each in (temporary, folder):
        each.mkdir()
    os.environ |= {"TMPDIR": str(temporary), "TORCHINDUCTOR_CACHE_DIR": str(place / "compiled"), "MPLBACKEND": "agg"}
    tempfile.tempdir = str(temporary)
    os.chdir(folder)
    try:
        passed = soak(60 * options.minutes, folder, temporary, out)
    finally:
        os.chdir(here)
        shutil.rmtree(place, ignore_errors=True)
    return int(not passed)


def soak(seconds: float, folder: Path, temporary: Path, out: Path) -> bool:
    """Work for so long, and keep what was seen."""
    samples: list[dict[str, float]] = []
    done: dict[str, int] = dict.fromkeys(WORK, 0)
    started = saved = time.monotonic()
    round_number = 0
    while (passed := time.monotonic() - started) < seconds or round_number < 2:
        for name, work in WORK.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                work(round_number, folder)
            done[name] += 1
            for left in folder.iterdir():
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        round_number += 1
        gc.collect()
        samples.append({"seconds": round(time.monotonic() - started, 1), **look(temporary)})
        if time.monotonic() - saved > SAVED_EVERY:
            saved = time.monotonic()
            save(out, samples, done)
            shown = samples[-1]
            print(
                f"\r{passed / 60:.1f} min, {round_number} rounds, {shown['resident'] / 1e6:.0f} MB ", end="", flush=True
            )
    result = save(out, samples, done)
    print()
    print(json.dumps({name: value for name, value in result.items() if name != "samples"}, indent=1))
    return bool(result["passed"])


def look(temporary: Path) -> dict[str, int]:
    """Return what this process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    children = [
        child for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()
    ]
    # Once it has started a process, Python keeps one of its own that tracks resources.
    ours = [child for child in children if b"resource_tracker" not in Path("/proc", child, "cmdline").read_bytes()]
    return {
        "resident": pages * os.sysconf("SC_PAGE_SIZE"),
        "files": len(list(Path("/proc/self/fd").iterdir())) - 1,  # but for the one that lists them
        "threads": len(list(Path("/proc/self/task").iterdir())),
        "processes": len(ours),
        "temporary": len(list(temporary.rglob("*"))),
    }


def save(out: Path, samples: list[dict[str, float]], done: dict[str, int]) -> dict[str, Any]:
    """Judge what was seen, and write it down."""
    result = judge(samples) | {"done": done, "samples": samples}
    whole = out.with_suffix(".tmp")
    whole.write_text(json.dumps(result))
    whole.replace(out)
    return result


def judge(samples: list[dict[str, float]]) -> dict[str, Any]:
    """Compare medians of the parts after the warm-up with the first of them, and the rest with how it was there."""
    end = samples[-1]["seconds"]
    settled = [each for each in samples if each["seconds"] >= WARM_UP * end]
    size = max(1, len(settled) // PARTS)
    parts = [settled[start : start + size] for start in range(0, size * min(PARTS, len(settled)), size)]
    medians = [statistics.median(each["resident"] for each in part) for part in parts]
    growth = max(medians) / medians[0] - 1
    leaked = {
        name: int(min(each[name] for each in parts[-1]) - min(each[name] for each in parts[0]))
        for name in ("files", "threads", "processes", "temporary")
    }
    return {
        "minutes": round(end / 60, 2),
        "rounds": len(samples),
        "resident": [int(median) for median in medians],
        "growth": round(growth, 4),
        "leaked": leaked,
        "left": {name: int(samples[-1][name]) for name in ("processes", "temporary")},
        "passed": growth <= ALLOWED and all(count <= 0 for count in leaked.values()),
    }


def solve(number: int, folder: Path) -> None:
    """Draw and solve cases of all problems, alone and in a batch."""
    rng = np.random.default_rng(number)
    del folder
    import disol

    for problem in disol.PROBLEMS:
        cases = [
            disol.draw(problem, int(rng.integers(10**6)), resolution=int(side), conventions="paper")
            for side in (32, 48, 48)
        ]
        times: dict[str, Any] = {} if cases[0].times is None else {"times": [2.0, 20.0]}
        posed = [disol.Case.from_arrays(case, **times) if times else case for case in cases]
        disol.solve_exact(posed[0])
        disol.solve_exact(posed[1:], device="cpu")
        disol.system(posed[0]).matrix  # noqa: B018  assembled when asked for


def predict(number: int, folder: Path) -> None:
    """Load models, predict and verify."""
    rng = np.random.default_rng(number)
    import disol

    for problem in ("poisson", "heat"):
        surrogate = disol.load(problem, device="cpu")
        cases = [disol.draw(problem, int(rng.integers(10**6)), resolution=32, conventions="paper") for _ in range(4)]
        surrogate.predict_pattern(np.stack([case.inputs for case in cases]))
        verified = surrogate.verify(cases[0])
        verified.save(folder / f"{problem}.npz")
        verified.save(folder / f"{problem}.vtu")


def generate(number: int, folder: Path) -> None:
    """Generate files, by a worker process at times, read and export them, and evaluate a model on one."""
    rng = np.random.default_rng(number)
    import disol
    from disol.data import describe, export_npz

    path = folder / "cases.h5"
    options: dict[str, Any] = {"resolution": 32, "device": "cpu", "progress": False}
    disol.generate("poisson", 8, path, seed=int(rng.integers(10**6)), workers=int(number % 5 == 0), **options)
    describe(path)
    export_npz(path, folder / "cases.npz")
    cases = disol.CaseDataset(path, split="train")
    cases.to_device("cpu").batch([0, 1])
    disol.evaluate("poisson", path, device="cpu", progress=False, out=folder / "results" if number % 5 == 0 else None)


def read(number: int, folder: Path) -> None:
    """Read cases from text, polygons and pictures, and meet what is refused."""
    rng = np.random.default_rng(number)
    import disol

    outline, picture = folder / "outline.json", folder / "part.png"
    angles = np.sort(rng.uniform(0, 2 * np.pi, 12))
    points = np.stack([0.5 + 0.4 * np.cos(angles), 0.5 + 0.4 * np.sin(angles)], axis=1)
    outline.write_text(json.dumps({"outer": points.tolist()}))
    from matplotlib.image import imsave

    imsave(picture, np.pad(np.zeros((20, 20)), 4, constant_values=1), cmap="gray")
    for geometry in ("star+hole", "random:7+all", outline, picture):
        disol.solve_exact(
            disol.read_case(
                "poisson", geometry, resolution=32, dirichlet="outer:0-0.3", source="sin(6*x)*y", conventions="paper"
            )
        )
    for wrong in ("x" * 300, "nowhere.png", "outer"):
        try:
            disol.read_case("poisson", wrong, conventions="paper")
        except disol.DisolError:
            continue
        raise AssertionError(f"{wrong} was read")


def plot(number: int, folder: Path) -> None:
    """Draw pictures of a case and of its solution, and close them as users do."""
    rng = np.random.default_rng(number)
    from matplotlib import pyplot

    import disol

    solution = disol.solve_exact(disol.draw("poisson", int(rng.integers(10**6)), resolution=32, conventions="paper"))
    for figure in (solution.case.plot(), solution.plot()):
        figure.savefig(folder / "picture.png")
        pyplot.close(figure)
    solution._repr_html_()


WORK: dict[str, Callable[[int, Path], None]] = {each.__name__: each for each in (solve, predict, generate, read, plot)}

if __name__ == "__main__":
    sys.exit(main())
