"""A generation can be killed at any moment: its file stays readable, resumes, and ends as if nothing had happened."""

import os
import random
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from disol.data import generate, open_store
from processes import session_members, wait_until

NUM_CASES = 250
OPTIONS = {"seed": 9, "resolution": 16}
SCRIPT = f"""
import signal, sys
from disol.data import generate
if __name__ == "__main__":
    # In the background of a shell, where the tests may run, it is ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    generate("poisson", {NUM_CASES}, sys.argv[1], seed=9, resolution=16, workers=2, chunk=2, resume=True)
"""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("undisturbed") / "cases.h5"
    generate("poisson", NUM_CASES, path, workers=1, **OPTIONS)
    return path


def start(folder: Path, path: Path) -> subprocess.Popen[str]:
    script = folder / "script.py"
    script.write_text(SCRIPT)
    return subprocess.Popen([sys.executable, script, path], start_new_session=True, stderr=subprocess.PIPE, text=True)


def done_cases(path: Path) -> int:
    return open_store(path, unfinished=True).num_done if path.exists() else 0


def test_a_generation_killed_again_and_again_ends_as_an_undisturbed_one(undisturbed: Path, tmp_path: Path) -> None:
    path, moments = tmp_path / "cases.h5", random.Random(1)
    progress = []
    for _ in range(4):
        before = done_cases(path)
        process = start(tmp_path, path)
        assert wait_until(lambda before=before: done_cases(path) > before)
        time.sleep(moments.uniform(0.0, 0.15))
        process.kill()
        process.communicate()
        progress.append(done_cases(path))
        assert wait_until(lambda process=process: not session_members(process.pid)), "workers outlived their parent"
    assert progress == sorted(progress)
    assert 0 < progress[0] < NUM_CASES
    report = generate("poisson", NUM_CASES, path, resume=True, workers=1, **OPTIONS)
    assert report.generated == NUM_CASES - progress[-1]
    assert path.read_bytes() == undisturbed.read_bytes()


def test_a_generation_interrupted_from_the_keyboard_can_be_resumed(undisturbed: Path, tmp_path: Path) -> None:
    path = tmp_path / "cases.h5"
    process = start(tmp_path, path)
    assert wait_until(lambda: done_cases(path) > 0)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert said.count("Traceback") == said.count("KeyboardInterrupt") == 1
    assert wait_until(lambda: not session_members(process.pid))
    generate("poisson", NUM_CASES, path, resume=True, workers=1, **OPTIONS)
    assert path.read_bytes() == undisturbed.read_bytes()


def test_a_command_that_is_terminated_cleans_up_and_says_how_to_go_on(undisturbed: Path, tmp_path: Path) -> None:
    path = tmp_path / "cases.h5"
    options = ["--seed=9", "--resolution=16", "--workers=2", f"--cases={NUM_CASES}", f"--out={path}"]
    command = [sys.executable, "-m", "disol", "generate", "poisson", *options]
    process = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, text=True)
    assert wait_until(lambda: done_cases(path) > 0)
    process.terminate()
    _, said = process.communicate(timeout=120)
    assert process.returncode == 128 + signal.SIGTERM
    assert f"interrupted; continue with: {shlex.join(['disol', *command[3:], '--resume'])}\n" in said
    assert "Traceback" not in said
    assert wait_until(lambda: not session_members(process.pid))
    generate("poisson", NUM_CASES, path, resume=True, workers=1, **OPTIONS)
    assert path.read_bytes() == undisturbed.read_bytes()


def test_a_worker_that_is_killed_is_one_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "cases.h5"
    process = start(tmp_path, path)
    assert wait_until(lambda: done_cases(path) > 0)
    workers = [pid for pid in session_members(process.pid) if is_worker(pid)]
    os.kill(workers[0], signal.SIGKILL)
    _, said = process.communicate(timeout=120)
    assert "DisolError: A worker process ended early" in said
    assert wait_until(lambda: not session_members(process.pid))
    assert 0 < done_cases(path) < NUM_CASES


def is_worker(pid: int) -> bool:
    return b"spawn_main" in Path("/proc", str(pid), "cmdline").read_bytes()
