"""Processes compute on a GPU at the same time where NVIDIA's service is installed, and leave nothing behind."""

import os
from pathlib import Path

import pytest

from disol.comparison import gpu_sharing
from disol.comparison.gpu_sharing import CONTROL, LOGS, PIPES, shared_gpu

PROGRAM = """#!/bin/sh
echo "$@ $(cat) $CUDA_MPS_PIPE_DIRECTORY" >> {log}
exit {code}
"""


@pytest.fixture(autouse=True)
def no_service(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(gpu_sharing, "USUAL_PIPES", tmp_path / "usual")
    monkeypatch.delenv(PIPES, raising=False)
    monkeypatch.delenv(LOGS, raising=False)


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, code: int = 0) -> Path:
    """Put a service on the path that writes down what it is asked for."""
    log, program = folder / "log", folder / CONTROL
    program.write_text(PROGRAM.format(log=log, code=code))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return log


def test_a_service_is_started_for_the_time_being(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = install(tmp_path, monkeypatch)
    with shared_gpu() as is_shared:
        pipes = os.environ[PIPES]
        assert is_shared
        assert Path(pipes).is_dir()
        assert Path(os.environ[LOGS]).is_dir()
    assert [line.split() for line in log.read_text().splitlines()] == [["-d", pipes], ["quit", pipes]]
    assert not {PIPES, LOGS} & set(os.environ)
    assert not Path(pipes).exists()


def test_a_service_is_ended_after_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = install(tmp_path, monkeypatch)
    with pytest.raises(KeyboardInterrupt), shared_gpu():
        raise KeyboardInterrupt
    assert "quit" in log.read_text()


def test_a_running_service_is_left_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = install(tmp_path, monkeypatch)
    monkeypatch.setenv(PIPES, str(tmp_path))
    with shared_gpu() as is_shared:
        assert is_shared
        assert os.environ[PIPES] == str(tmp_path)
    monkeypatch.delenv(PIPES)
    (tmp_path / "usual").mkdir()
    with shared_gpu() as is_shared:
        assert is_shared
        assert PIPES not in os.environ
    assert not log.exists()


@pytest.mark.parametrize("is_installed", [True, False])
def test_without_a_service_processes_take_turns(
    is_installed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_installed:
        install(tmp_path, monkeypatch, code=1)
    else:
        monkeypatch.setenv("PATH", str(tmp_path))
    with shared_gpu() as is_shared:
        assert not is_shared
        assert PIPES not in os.environ
