"""How pages of benchmarks are written: Markdown tables, and the name of the machine."""

import os
import platform
from pathlib import Path


def processor() -> str:
    """Name the processor and the version of Python."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return f"{name}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}"


def table(heading: list[str], rows: list[list[str]]) -> str:
    """Format a table in Markdown."""
    lines = [heading, ["---"] * len(heading), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def publish(paragraphs: list[str], path: Path | None) -> None:
    """Print a page, and write it if asked to."""
    page = "\n\n".join(paragraphs)
    print(page)
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page + "\n")
