"""A Dask cluster gives the same file as processes on this machine."""

import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest
from distributed import LocalCluster

from disol.data import generate, open_store
from disol.data.cluster import connect
from disol.errors import DisolError

OPTIONS = {"seed": 4, "resolution": 16, "device": "cpu"}


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as running:
        yield running


def test_two_worker_processes_of_a_cluster_write_the_same_file(cluster: LocalCluster, tmp_path: Path) -> None:
    generate("poisson", 60, tmp_path / "here.h5", workers=0, **OPTIONS)
    generate("poisson", 60, tmp_path / "there.h5", scheduler=cluster.scheduler_address, **OPTIONS)
    assert (tmp_path / "there.h5").read_bytes() == (tmp_path / "here.h5").read_bytes()


def test_the_work_outlives_a_worker(cluster: LocalCluster, tmp_path: Path) -> None:
    script = (
        "import sys\nfrom disol.data import generate\n"
        "generate('poisson', 200, sys.argv[1], scheduler=sys.argv[2], seed=4, resolution=16, device='cpu', chunk=8)\n"
    )
    path = tmp_path / "cases.h5"
    process = subprocess.Popen([sys.executable, "-c", script, path, cluster.scheduler_address], stderr=subprocess.PIPE)
    while process.poll() is None and not (path.exists() and open_store(path, unfinished=True).num_done > 0):
        pass
    worker = next(iter(cluster.workers.values()))
    worker.process.process.kill()
    _, said = process.communicate(timeout=120)
    assert process.returncode == 0, said.decode()
    assert open_store(path).num_done == 200


def test_a_cluster_that_does_not_answer_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("disol.data.cluster.PATIENCE", 1)
    with pytest.raises(ValueError, match=r"No Dask cluster .* answers at 'tcp://127.0.0.1:9'"):
        generate("poisson", 4, tmp_path / "cases.h5", scheduler="tcp://127.0.0.1:9", **OPTIONS)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_port_that_is_no_scheduler_is_not_waited_for(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("disol.data.cluster.PATIENCE", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server:
        held = []  # connections stay open: nothing else is ever said

        def serve() -> None:
            with suppress(OSError):
                while True:
                    held.append(server.accept()[0])
                    held[-1].sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(DisolError, match=r"No Dask cluster with a worker answers at 'tcp://127\.0\.0\.1:"):
            connect(f"tcp://127.0.0.1:{server.getsockname()[1]}")
        for connection in held:
            connection.close()


def test_a_back_end_without_an_address_is_one_clear_line(tmp_path: Path) -> None:
    command = ["generate", "poisson", "--cases", "4", "--out", str(tmp_path / "cases.h5"), "--backend", "dask"]
    result = subprocess.run([sys.executable, "-m", "disol", *command], capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "--scheduler" in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.fixture
def empty_cluster():
    with LocalCluster(n_workers=0, processes=True, dashboard_address=":0", silence_logs=50) as running:
        yield running


def connected(cluster: LocalCluster) -> set[str]:
    return {name for name in cluster.scheduler.clients if name.startswith("Client-")}


def wait_until_left(cluster: LocalCluster, clients: set[str]) -> None:
    """The scheduler hears of a closed connection a moment later."""
    patience = time.monotonic() + 10
    while connected(cluster) != clients and time.monotonic() < patience:
        time.sleep(0.05)
    assert connected(cluster) == clients


def test_a_cluster_without_workers_is_left_again(empty_cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("disol.data.cluster.PATIENCE_WITH_WORKERS", 1)
    before = connected(empty_cluster)
    with pytest.raises(ValueError, match=r"No Dask cluster with a worker answers .*TimeoutError"):
        connect(empty_cluster.scheduler_address)
    wait_until_left(empty_cluster, before)


def test_workers_without_disol_are_one_clear_error(empty_cluster: LocalCluster) -> None:
    worker = (
        "import sys\nsys.modules['disol'] = None  # as if it were not installed\n"
        "from distributed.cli.dask_worker import main\nmain(sys.argv[1:])\n"
    )
    options = ["--no-nanny", "--no-dashboard", "--nthreads=1", "--death-timeout=60"]
    process = subprocess.Popen(
        [sys.executable, "-c", worker, empty_cluster.scheduler_address, *options], stderr=subprocess.DEVNULL
    )
    before = connected(empty_cluster)
    try:
        with pytest.raises(
            ValueError, match=r"need disol .*, but do not have it \(ModuleNotFoundError.*Install"
        ) as raised:
            connect(empty_cluster.scheduler_address)
    finally:
        process.terminate()
        process.wait()
    assert "\n" not in str(raised.value)
    wait_until_left(empty_cluster, before)
