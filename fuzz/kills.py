"""A kill campaign: runs that end by a signal at a random moment, are resumed, and must end as if nothing had happened.

    python fuzz/kills.py --signals 100

Each signal hits a fresh run. SIGKILL and SIGTERM go to the main process, SIGINT to all, as from a keyboard. Afterwards
no process of the run may be left; the resumed run must leave the files of an undisturbed one and no others, byte for
byte (`generate`) or with equal weights and history (`train`), and nothing in the folder for temporary files. Results
are kept after each signal: started again with the same file, it goes on.
"""

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path("build/fuzz")
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
PATIENCE = 60.0  # seconds until the processes of a run that was hit must have ended
LONGEST = 900.0  # seconds of a run
WHILE_WRITING = 0.8  # of the signals come after the first file is there
GENERATE = """
import signal, sys
import disol
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in the background
    disol.generate("poisson", 400, sys.argv[1] + "/cases.h5", seed=9, resolution=16, workers=1, chunk=2, resume=True,
                   device="cpu", progress=False)
"""
TRAIN = """
import signal, sys
import torch
import disol
if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    torch.set_num_threads(1)
    disol.train("poisson", sys.argv[2], sys.argv[1] + "/run", resume=True, device="cpu", progress=False, seed=5,
                overrides=["train.epochs=12", "train.batch_size=8"],
                model_settings={"width": 4, "depth": 2, "gated_skips": 1})
"""


@dataclass(frozen=True)
class Kind:
    """What is interrupted.

    script     run with a folder to write to, and a file of cases
    same       tells in what two folders differ; empty if in nothing
    """

    script: str
    same: Callable[[Path, Path], str]


def list_files(folder: Path) -> list[str]:
    """List all that is in a folder, hidden files too."""
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def same_bytes(ours: Path, theirs: Path) -> str:
    """Compare files byte for byte."""
    different = [name for name in list_files(theirs) if (ours / name).read_bytes() != (theirs / name).read_bytes()]
    return f"{', '.join(different)} differ" if different else ""


def same_run(ours: Path, theirs: Path) -> str:
    """Compare weights, losses and learning rates."""
    import torch

    from disol.models import load_checkpoint
    from disol.training import read_history

    first, second = (
        [(each.train_loss, each.validation_loss, each.learning_rate) for each in read_history(folder / "run")]
        for folder in (ours, theirs)
    )
    if first != second:
        return "histories differ"
    weights, expected = (load_checkpoint(folder / "run").network.state_dict() for folder in (ours, theirs))
    if weights.keys() != expected.keys() or not all(torch.equal(weights[name], expected[name]) for name in expected):
        return "weights differ"
    return ""


KINDS = {"generate": Kind(GENERATE, same_bytes), "train": Kind(TRAIN, same_run)}


class Bench:
    """A place for runs of one kind, with an undisturbed one to compare with."""

    def __init__(self, name: str, place: Path) -> None:
        self.kind, self.place = KINDS[name], place
        self.temporary, self.data = place / "temporary", place / "cases.h5"
        self.temporary.mkdir()
        self.script = place / "script.py"
        self.script.write_text(self.kind.script)
        if name == "train":
            import disol

            disol.generate("poisson", 40, self.data, seed=9, resolution=16, workers=0, device="cpu", progress=False)
        self.undisturbed = place / "undisturbed"
        self.undisturbed.mkdir()
        started = time.monotonic()
        process = self.start(self.undisturbed)
        self.starting = self.wait_until_written(process, self.undisturbed)  # seconds until the first file is there
        self.finish(self.undisturbed, process)
        self.writing = time.monotonic() - started - self.starting  # seconds from then on

    def start(self, folder: Path) -> subprocess.Popen[str]:
        """Start a run in a session of its own; the cache of torch's compiler is not ours to remove."""
        settings = {"TMPDIR": str(self.temporary), "TORCHINDUCTOR_CACHE_DIR": str(self.place / "compiled")}
        settings |= {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg"}
        return subprocess.Popen(
            [sys.executable, str(self.script), str(folder), str(self.data)],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **settings},
        )

    def wait_until_written(self, process: subprocess.Popen[str], folder: Path) -> float:
        """Wait until a run has begun to write, or has ended; return the seconds that took."""
        started = time.monotonic()
        while not any(folder.iterdir()) and process.poll() is None and time.monotonic() < started + LONGEST:
            time.sleep(0.01)
        return time.monotonic() - started

    def finish(self, folder: Path, begun: subprocess.Popen[str] | None = None) -> None:
        """Run to the end."""
        process = begun or self.start(folder)
        try:
            _, said = process.communicate(timeout=LONGEST)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise RuntimeError(f"not done after {LONGEST:g} s") from None
        if process.returncode:
            raise RuntimeError(said.strip()[-1500:])

    def hit(self, seed: int) -> dict[str, Any]:
        """Hit a fresh run by a signal, resume it, and say what is wrong with the outcome."""
        moments = random.Random(seed)
        kind, while_writing = SIGNALS[seed % len(SIGNALS)], moments.random() < WHILE_WRITING
        delay = moments.uniform(0.0, 0.95 * self.writing if while_writing else self.starting)
        folder = self.place / f"run-{seed}"
        folder.mkdir()
        process = self.start(folder)
        if while_writing:
            self.wait_until_written(process, folder)
        try:
            process.wait(delay)
            ended_before = True
        except subprocess.TimeoutExpired:
            ended_before = False
            (os.killpg if kind == signal.SIGINT else os.kill)(process.pid, kind)
        failures = []
        try:
            process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            failures.append("the process did not end")
        left = wait_for_session(process.pid)
        if left:
            failures.append(f"{left} processes were left")
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        began = len(list_files(folder)) > 0
        failures += self.outcome(folder)
        shutil.rmtree(folder, ignore_errors=True)
        return {
            "seed": seed,
            "signal": kind.name,
            "delay": round(delay, 3),
            "ended_before": ended_before,
            "had_files": began,
            "failures": failures,
        }

    def outcome(self, folder: Path) -> list[str]:
        """Resume a run, and say in what it differs from the undisturbed one."""
        try:
            self.finish(folder)
        except RuntimeError as error:
            return [f"not resumed: {error}"]
        failures = []
        files, expected = list_files(folder), list_files(self.undisturbed)
        if files != expected:
            failures.append(f"files {sorted(set(files) ^ set(expected))} are left over or missing")
        if set(expected) <= set(files):
            difference = self.kind.same(folder, self.undisturbed)
            failures += [difference] if difference else []
        temporary = list_files(self.temporary)
        if temporary:
            failures.append(f"temporary files {temporary[:3]} are left over")
            for path in self.temporary.iterdir():
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
        return failures


def wait_for_session(session: int) -> int:
    """Wait until a session has no processes; return how many are left when patience ends."""
    end = time.monotonic() + PATIENCE
    while (left := count_members(session)) and time.monotonic() < end:
        time.sleep(0.02)
    return left


def count_members(session: int) -> int:
    """Count the living processes of a session."""
    members = 0
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        members += int(fields[3]) == session and fields[0] not in "ZX"
    return members


def count_sent(hits: list[dict[str, Any]]) -> int:
    """Count the runs that a signal has hit before they had ended."""
    return sum(not hit["ended_before"] for hit in hits)


def main(arguments: list[str] | None = None) -> int:
    """Hit runs of the kinds asked for, and count what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="both unless given")
    parser.add_argument("--signals", type=int, default=100, help="of each kind, those of earlier sessions included")
    parser.add_argument("--out", type=Path, default=RESULTS / "kills.json", help="where results are kept")
    parser.add_argument("--fresh", action="store_true", help="forget earlier results in that file")
    options = parser.parse_args(arguments)
    if options.fresh:
        options.out.unlink(missing_ok=True)
    results: dict[str, list[dict[str, Any]]] = json.loads(options.out.read_text()) if options.out.exists() else {}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for name in options.kinds:
        hits = results.setdefault(name, [])  # with those runs that had ended before their signal came
        with tempfile.TemporaryDirectory(prefix="disol-kills-") as place:
            bench = Bench(name, Path(place)) if count_sent(hits) < options.signals else None
            while bench is not None and count_sent(hits) < options.signals:
                hits.append(bench.hit(len(hits)))
                temporary = options.out.with_suffix(".tmp")
                temporary.write_text(json.dumps(results, indent=1))
                temporary.replace(options.out)
                failed = sum(bool(hit["failures"]) for hit in hits)
                print(f"\r{name}: {count_sent(hits)} signals, {failed} failures ", end="", flush=True)
        print()
        for hit in hits:
            if hit["failures"]:
                print(hit)
        print(
            name,
            dict(Counter(hit["signal"] for hit in hits)),
            f"{sum(hit['ended_before'] for hit in hits)} came too late",
        )
    return int(any(hit["failures"] for hits in results.values() for hit in hits))


if __name__ == "__main__":
    sys.exit(main())
