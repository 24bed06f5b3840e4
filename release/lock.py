"""Write requirements.lock: the versions that are installed here, to be installed elsewhere by `pip install -c`.

    make lock

Constraints, not requirements: nothing is installed because it is listed. Left out are this package, builds of torch
("+cpu"), of which each index has its own, and what belongs to a build of torch on a GPU and is pinned by that (triton).
"""

import argparse
import platform
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BOUND_TO_TORCH = ("triton", "nvidia-", "cuda-", "pytorch-triton")
TOOLS = ("pip", "setuptools", "wheel")


def lock(installed: list[str]) -> list[str]:
    """Return constraints for what is installed, without local versions and paths."""
    kept = []
    for line in installed:
        name, pinned, version = line.strip().partition("==")
        if pinned and not name.lower().startswith(BOUND_TO_TORCH) and name.lower() not in TOOLS:
            kept.append(f"{name}=={re.sub(r'[+].*', '', version)}")
    return sorted(kept, key=str.lower)


def main(arguments: list[str] | None = None) -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "requirements.lock")
    options = parser.parse_args(arguments)
    command = [sys.executable, "-m", "pip", "freeze", "--exclude-editable", "--exclude", "disol"]
    frozen = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    major, minor, _ = platform.python_version_tuple()
    heading = [
        f"# Versions that the tests passed with, on Python {major}.{minor}. Written by `make lock`.",
        "# Use them by `make test LOCK=requirements.lock`, or `pip install -c requirements.lock -e '.[dev]'`.",
    ]
    options.out.write_text("\n".join([*heading, *lock(frozen)]) + "\n", encoding="utf-8")
    print(f"written {options.out}")


if __name__ == "__main__":
    main()
