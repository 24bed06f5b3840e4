"""Fuzzing: inputs of every kind, each in a process under limits, and what became of them.

Input `seed` of a generator is the same for ever; whatever went wrong is seen again by

    python fuzz/campaign.py --only GENERATOR SEED

A campaign keeps its counts in a file as it goes. Started again with the same file it goes on where it ended, also after
a kill. It ends with status 1 if anything was found: a traceback instead of one line, a hang, too much memory, a crash,
a wrong answer, or a change of files outside the folder that was named.
"""

import argparse
import json
import os
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pool import GENERATORS, Limits, Report, Task, run_tasks

HARMLESS = ("ok", "refused")
WEIGHTS = {  # inputs of each generator for one of the slowest
    "solve": 8,
    "relations": 2,
    "calls": 10,
    "draws": 4,
    "surrogates": 3,
    "predictions": 2,
    "boundaries": 4,
    "statements": 10,
    "parts": 8,
    "answers": 6,
    "rankings": 3,
    "generations": 1,
    "pictures": 8,
    "outlines": 8,
    "ranges": 8,
    "formulas": 12,
    "stores": 10,
    "checkpoints": 4,
    "configs": 8,
    "commands": 3,
}
RESULTS = Path("build/fuzz")
SAVED_EVERY = 10.0  # seconds
KEPT = 5  # findings of one kind; more are counted only


@dataclass
class Campaign:
    """What has been tried so far.

    verdicts   how often each was given, by generator
    pending    inputs that were under way when this was saved
    findings   by what they have in common, with how many there are
    longest    the longest message of a refusal: its number of characters, generator and seed
    slowest    seconds, generator and seed; largest: bytes, generator and seed
    """

    next_seeds: dict[str, int] = field(default_factory=dict)
    verdicts: dict[str, dict[str, int]] = field(default_factory=dict)
    pending: list[Task] = field(default_factory=list)
    findings: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0
    longest: tuple[int, str, int] = (0, "", 0)
    slowest: tuple[float, str, int] = (0.0, "", 0)
    largest: tuple[int, str, int] = (0, "", 0)
    limits: dict[str, float] = field(default_factory=dict)

    @property
    def inputs(self) -> int:
        """Inputs that have a verdict."""
        return sum(sum(counts.values()) for counts in self.verdicts.values())

    @property
    def found(self) -> int:
        """Inputs that found something."""
        return sum(finding["count"] for finding in self.findings.values())

    def next_task(self, weights: dict[str, int]) -> Task:
        """Return the next input, each generator as often as its weight says."""
        if self.pending:
            name, seed = self.pending.pop()
            return name, seed
        name = min(weights, key=lambda each: (self.next_seeds.get(each, 0) / weights[each], each))
        seed = self.next_seeds.get(name, 0)
        self.next_seeds[name] = seed + 1
        return name, seed

    def add(self, task: Task, report: Report) -> bool:
        """Count a report, and tell whether it is a finding."""
        name, seed = task
        counts = Counter(self.verdicts.get(name, {}))
        counts[report["verdict"]] += 1
        self.verdicts[name] = dict(counts)
        self.longest = max(self.longest, (report.get("message", 0), name, seed))
        self.slowest = max(self.slowest, (report["seconds"], name, seed))
        self.largest = max(self.largest, (report["peak"], name, seed))
        if report["verdict"] in HARMLESS:
            return False
        kind = re.sub(r"[-+]?\d[\d.e+-]*", "#", report.get("error", "").partition(":")[0])  # but for its numbers
        alike = f"{name}: {report['verdict']}: {kind} at {report.get('where', 'elsewhere')}"
        found = self.findings.setdefault(alike, {"count": 0, "examples": []})
        found["count"] += 1
        if len(found["examples"]) < KEPT:
            found["examples"].append({"generator": name, "seed": seed, **report})
        return True

    def save(self, path: Path, pending: list[Task]) -> None:
        """Write it whole."""
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(asdict(self) | {"pending": [*self.pending, *pending]}, indent=1))
        temporary.replace(path)

    @classmethod
    def read(cls, path: Path) -> "Campaign":
        """Read what was saved; a new one where nothing was."""
        if not path.exists():
            return cls()
        stored = json.loads(path.read_text())
        stored["pending"] = [tuple(task) for task in stored["pending"]]
        for name in ("longest", "slowest", "largest"):
            stored[name] = tuple(stored[name])
        return cls(**stored)


def fuzz(
    campaign: Campaign,
    path: Path | None = None,
    *,
    weights: dict[str, int] | None = None,
    inputs: int | None = None,
    minutes: float | None = None,
    jobs: int = 1,
    limits: Limits | None = None,
    module: Path = GENERATORS,
    quiet: bool = False,
) -> None:
    """Go on with a campaign until it has so many inputs, or for so many minutes, and keep it in a file."""
    limits, started, before = limits or Limits(), time.monotonic(), campaign.seconds
    campaign.limits = asdict(limits)
    end = float("inf") if minutes is None else started + 60 * minutes
    left = float("inf") if inputs is None else inputs - campaign.inputs
    under_way: set[Task] = set()
    asked_to_stop: list[int] = []
    guard = threading.Lock()  # between handing out a task and saving which are under way

    def tasks() -> Iterator[Task]:
        given = 0
        while given < left and not asked_to_stop and time.monotonic() < end:
            with guard:
                task = campaign.next_task(weights or WEIGHTS)
                under_way.add(task)
            given += 1
            yield task

    def save() -> None:
        if path is not None:
            with guard:
                campaign.save(path, list(under_way))

    earlier = {
        kind: signal.signal(kind, lambda kind, _: asked_to_stop.append(kind))
        for kind in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        saved = started
        with closing(run_tasks(tasks(), jobs, limits, module)) as reports:
            for task, report in reports:
                with guard:
                    under_way.discard(task)
                if campaign.add(task, report) and not quiet:
                    print(f"\r{' ' * 100}\r{task[0]} {task[1]}: {report['verdict']}, {report.get('error', '')[:160]}")
                campaign.seconds = before + time.monotonic() - started
                if time.monotonic() - saved > SAVED_EVERY:
                    save()
                    saved = time.monotonic()
                if not quiet:
                    rate = campaign.inputs / max(campaign.seconds, 1e-9)
                    print(f"\r{campaign.inputs} inputs, {campaign.found} findings, {rate:.0f}/s ", end="", flush=True)
    finally:
        for kind, handler in earlier.items():
            signal.signal(kind, handler)
        save()


def show(campaign: Campaign) -> None:
    """Print the counts and what was found."""
    print()
    for name, counts in sorted(campaign.verdicts.items()):
        print(f"{name:13}", ", ".join(f"{number} {verdict}" for verdict, number in sorted(counts.items())))
    print(
        f"{campaign.inputs} inputs, {campaign.found} findings in {campaign.seconds:.0f} s; "
        f"slowest {campaign.slowest}, largest {campaign.largest}, longest message {campaign.longest}"
    )
    for alike, found in campaign.findings.items():
        first = found["examples"][0]
        print(f"\n{found['count']} x {alike}\n  {first['text']}\n  {first.get('error', '')}")
        print(f"  python fuzz/campaign.py --only {first['generator']} {first['seed']}")


def read_options(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, help="end after this time")
    parser.add_argument("--inputs", type=int, help="end when there are so many, those of earlier sessions included")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes at once")
    parser.add_argument("--generators", nargs="+", choices=WEIGHTS, help="all unless given")
    parser.add_argument("--out", type=Path, default=RESULTS / "campaign.json", help="where the counts are kept")
    parser.add_argument("--fresh", action="store_true", help="forget an earlier campaign in that file")
    parser.add_argument(
        "--only", nargs=2, metavar=("GENERATOR", "SEED"), help="run one input and show what became of it"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run a campaign, or one input."""
    options = read_options(arguments)
    if options.only:
        task = (options.only[0], int(options.only[1]))
        for _, report in run_tasks(iter([task]), 1):
            print(f"{report['verdict']}: {report.get('error', '')}\n{report['text']}\n{report.get('traceback', '')}")
            print(f"{report['seconds']} s, at most {report['peak'] / 1e6:.0f} MB")
            return int(report["verdict"] not in HARMLESS)
    if options.fresh:
        options.out.unlink(missing_ok=True)
    campaign = Campaign.read(options.out)
    weights = {name: WEIGHTS[name] for name in options.generators or WEIGHTS}
    minutes = 5.0 if options.minutes is None and options.inputs is None else options.minutes
    fuzz(campaign, options.out, weights=weights, inputs=options.inputs, minutes=minutes, jobs=options.jobs)
    show(campaign)
    return int(campaign.found > 0)


if __name__ == "__main__":
    sys.exit(main())
