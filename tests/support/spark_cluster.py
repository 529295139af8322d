"""A Spark standalone cluster for tests: a master and two workers on loopback, each with executors of its own.

Executors are processes with folders of their own, which may be killed (`kill_an_executor`, `kill_executor_of`).
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
import pyspark
import pytest
from tests.support.ports import free_port

WORKERS = 2
EXECUTORS_OF_A_WORKER = 2
START_SECONDS = 120
#: What an application of the cluster sets, so that each worker runs its executors.
APPLICATION: Mapping[str, str] = {
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.python.authenticate.socketTimeout": "120s",
}
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


@dataclass(frozen=True)
class SparkCluster:
    """A running cluster. `master`: its URL for a session."""

    master: str
    workers: Sequence[subprocess.Popen[bytes]]

    def executors(self) -> list[psutil.Process]:
        """The processes of the executors that run now."""
        found = []
        for worker in self.workers:
            for child in psutil.Process(worker.pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    if _EXECUTOR in child.cmdline():
                        found.append(child)
        return found

    def kill_an_executor(self, chosen: random.Random) -> bool:
        """Kill one of the executors with its Python workers, as a machine that is lost; whether there was one."""
        executors = self.executors()
        if not executors:
            return False
        _kill_with_children(chosen.choice(executors))
        return True

    def kill_executor_of(self, worker: int) -> bool:
        """Kill the executor that has a Python worker, by the worker's id; whether there was one."""
        for executor in self.executors():
            if worker in {child.pid for child in executor.children(recursive=True)}:
                _kill_with_children(executor)
                return True
        return False


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkCluster]:
    """A cluster for the tests of a module."""
    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@contextlib.contextmanager
def running_cluster(folder: Path) -> Iterator[SparkCluster]:
    """Start a cluster whose logs and scratch files are in a folder, and stop it at the end of the block."""
    from pyhudi.sql.session import prepare_process

    prepare_process()
    port = free_port()
    master = f"spark://127.0.0.1:{port}"
    with contextlib.ExitStack() as stack:
        stack.enter_context(_started(folder, "master", "master.Master", "--port", str(port)))
        _wait_until_open(port)
        cores, memory = str(EXECUTORS_OF_A_WORKER), f"{EXECUTORS_OF_A_WORKER}g"
        workers = [
            stack.enter_context(
                _started(
                    folder, name, "worker.Worker", "--cores", cores, "--memory", memory, "--work-dir", name, master
                )
            )
            for name in (f"worker-{number}" for number in range(WORKERS))
        ]
        yield SparkCluster(master, workers)


def _kill_with_children(process: psutil.Process) -> None:
    for doomed in [*process.children(recursive=True), process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            doomed.kill()


@contextlib.contextmanager
def _started(folder: Path, name: str, program: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    home = Path(pyspark.__file__).parent
    (folder / name).mkdir()
    options = ["--host", "127.0.0.1", "--webui-port", "0", *arguments]
    with (folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{program}", *options],
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_DIRS": str(folder / name)},
        )
    try:
        yield process
    finally:
        _kill_with_children(psutil.Process(process.pid))
        process.wait()


def _wait_until_open(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return
