"""A process that runs attempts: it reads a generator and a seed per line, and writes a verdict per line."""

import faulthandler
import gc
import hashlib
import importlib
import json
import os
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from attempts import Attempt, Generator, WrongAnswer

HEADROOM = 8 * 2**30  # of address space: what is asked for beyond is refused by the system, and counts as memory
LONGEST_MESSAGE = 2000  # letters
COLLECTED_EVERY = 50  # inputs: looking at all objects takes longer than most of them
HACKED = "hacked"  # the file that inputs with code in them write
BYSTANDERS = {
    "thesis.tex": b"years of work",
    "empty.txt": b"",
    "photos/first.jpg": b"\xff\xd8",
    "model.safetensors": b"own",
}


def prepare(generators: Mapping[str, Generator], name: str, seed: int, folder: Path) -> Attempt:
    """Make an attempt: a pure function of the generator and the seed."""
    rng = np.random.default_rng([zlib.crc32(name.encode()), seed])
    return generators[name](rng, folder)


def judge(attempt: Attempt) -> dict[str, Any]:
    """Run an attempt, and say how it ended."""
    from disol import DisolError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            attempt.run()
    except DisolError as error:
        message = str(error)
        if len(message) > LONGEST_MESSAGE or not message.isprintable():
            return {"verdict": "traceback", "error": f"a message that is no line: {message[:300]!r}"}
        return {"verdict": "refused", "message": len(message)}
    except WrongAnswer as error:
        return {"verdict": "wrong answer", "error": str(error)}
    except MemoryError as error:
        return {"verdict": "memory", **told(error)}
    except SystemExit as error:
        if error.code in (0, None):
            return {"verdict": "ok"}
        return {"verdict": "refused" if error.code == 2 else "traceback", "error": f"exit code {error.code}"}
    except BaseException as error:
        return {"verdict": "traceback", **told(error)}
    return {"verdict": "ok"}


def told(error: BaseException) -> dict[str, str]:
    """Say what an exception was and where it came from: the last line of the package that it passed."""
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if f"{os.sep}disol{os.sep}" in frame.filename]
    where = f"{lines[-1].filename.partition(f'{os.sep}disol{os.sep}')[2]}:{lines[-1].lineno}" if lines else "elsewhere"
    text = "".join(traceback.format_exception(error, limit=-12))
    return {"error": f"{type(error).__name__}: {str(error)[:300]}", "where": where, "traceback": text[-6000:]}


def digest(folder: Path) -> str:
    """Return a digest of the names and contents of all files in a folder."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found.update(str(path.relative_to(folder)).encode() + b"\0")
        if path.is_file() and not path.is_symlink():
            found.update(path.read_bytes())
    return found.hexdigest()


def run(
    generators: Mapping[str, Generator],
    name: str,
    seed: int,
    base: Path,
    begin: Callable[[str], object],
) -> dict[str, Any]:
    """Run one attempt in a folder of its own, beside files that it must leave alone; tell first what it is."""
    place = Path(tempfile.mkdtemp(dir=base, prefix="attempt-"))
    folder, bystander = place / "work", place / "bystander"
    for file, content in BYSTANDERS.items():
        (bystander / file).parent.mkdir(parents=True, exist_ok=True)
        (bystander / file).write_bytes(content)
    folder.mkdir()
    os.chdir(folder)
    Path("/proc/self/clear_refs").write_text("5")  # begin a new peak of memory
    attempt = prepare(generators, name, seed, folder)
    begin(attempt.text)
    before, started = digest(bystander), time.monotonic()
    verdict = judge(attempt)
    seconds = time.monotonic() - started
    if digest(bystander) != before:
        verdict = {"verdict": "outside", "error": "files beside the named folder were changed"}
    if (folder / HACKED).exists():
        verdict = {"verdict": "outside", "error": "code that an input holds was run"}
    os.chdir(base)
    shutil.rmtree(place, ignore_errors=True)
    return {"text": attempt.text, "seconds": round(seconds, 3), "peak": memory("VmHWM"), **verdict}


def memory(name: str) -> int:
    """Return a number of bytes that the system knows of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(f"{name}:")).split()[1])


def main() -> None:
    """Answer requests until there are no more."""
    module, base, limit = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    reports = os.fdopen(os.dup(1), "w", buffering=1)
    log = os.open(base / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):  # what the package prints is not a report
        os.dup2(log, stream)
    faulthandler.enable()
    sys.path.insert(0, str(Path(module).parent))
    os.environ["DISOL_FUZZ_TEMPLATES"] = str(base / "templates")
    table = importlib.import_module(Path(module).stem)
    generators: Mapping[str, Generator] = table.GENERATORS
    table.prepare()
    size = memory("VmSize") + HEADROOM
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    gc.collect()
    gc.freeze()  # what has been imported need not be looked at again and again
    print(json.dumps({"ready": True}), file=reports)
    for number, line in enumerate(sys.stdin):
        name, seed = json.loads(line)
        os.ftruncate(log, 0)
        faulthandler.dump_traceback_later(0.95 * limit)
        try:
            report = run(generators, name, seed, base, lambda text: print(json.dumps({"text": text}), file=reports))
        except BaseException as error:  # of a generator, not of the package
            report = {"verdict": "generator failed", "text": "", "seconds": 0.0, "peak": 0, **told(error)}
        faulthandler.cancel_dump_traceback_later()
        if number % COLLECTED_EVERY == 0:
            gc.collect()
        print(json.dumps(report | {"resident": memory("VmRSS")}), file=reports)


if __name__ == "__main__":
    main()
