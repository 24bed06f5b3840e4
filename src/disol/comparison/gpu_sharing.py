"""One GPU for several processes at once: NVIDIA's Multi-Process Service (MPS), where it is installed."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONTROL = "nvidia-cuda-mps-control"
PIPES, LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
USUAL_PIPES = Path("/tmp", "nvidia-mps")  # where CUDA looks for a service that was started without PIPES
PATIENCE = 20.0  # seconds for the service to start, and to end


@contextmanager
def shared_gpu() -> Iterator[bool]:
    """Let processes that start in the block compute on a GPU at the same time, not in turns; yield whether they do.

    Small networks leave most of a GPU idle, so runs side by side gain little if each waits for its turn. A service
    that is running already is left as it is.
    """
    if os.environ.get(PIPES) or USUAL_PIPES.exists():
        yield True
        return
    with tempfile.TemporaryDirectory(prefix="disol-mps-") as folder:
        places = {PIPES: str(Path(folder, "pipes")), LOGS: str(Path(folder, "logs"))}
        for place in places.values():
            Path(place).mkdir()
        if not _control("-d", places):
            yield False
            return
        kept = {name: os.environ.get(name) for name in places}
        os.environ.update(places)
        try:
            yield True
        finally:
            for name, value in kept.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
            _control("", places, said="quit\n")


def _control(option: str, places: dict[str, str], said: str = "") -> bool:
    """Start the service, or send it a command; tell whether that worked."""
    program = shutil.which(CONTROL)
    if program is None:
        return False
    try:
        ended = subprocess.run(
            [program, *option.split()],
            input=said,
            env={**os.environ, **places},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=False,
            text=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ended.returncode == 0
