"""JVM Hudi as a judge: a client of `tools/oracle/server.py`, one process per Hudi version.

`make interop` has fetched the jars; where it could not, `missing_oracle` says why and the tests skip aloud.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

REPOSITORY = Path(__file__).resolve().parents[2]
ORACLE_HOME = REPOSITORY / ".oracle"
SPARK_SCRIPTS = ORACLE_HOME / "jars" / "spark-sql_2.13-4.2.0-tests.jar"
SERVER = REPOSITORY / "tools" / "oracle" / "server.py"

#: The Hudi release that writes each table version by default.
RELEASE_OF_TABLE_VERSION = {6: "0.15.0", 8: "1.0.2", 9: "1.2.0"}
RELEASES = tuple(RELEASE_OF_TABLE_VERSION.values())

#: A commit on a table of many small files takes seconds; a hung JVM must not hang the suite.
ANSWER_SECONDS_MAX = 300


class OracleError(Exception):
    """JVM Hudi refused a request; `trace` has the whole story."""

    def __init__(self, message: str, trace: str) -> None:
        super().__init__(message)
        self.trace = trace


def jar_of(release: str) -> Path:
    return ORACLE_HOME / "jars" / f"hudi-spark3.5-bundle_2.12-{release}.jar"


def missing_oracle(release: str) -> str | None:
    """Why this release cannot be asked on this machine, or None if it can."""
    if shutil.which("java") is None:
        return f"no Java for Hudi {release}"
    if not (ORACLE_HOME / "venv" / "bin" / "python").exists():
        return f"no Spark for Hudi {release}: run `make interop`, which says what it could not fetch"
    if not jar_of(release).exists():
        return f"no jar of Hudi {release}: run `make interop`, which says what it could not fetch"
    return None


class Oracle:
    """One JVM Hudi. The process starts with the first request and lives until `stop`. Not thread-safe.

    `settings`: a folder of Hadoop's XML files, which come before those in Hudi's jar.
    """

    def __init__(self, release: str, settings: Path | None = None) -> None:
        self.release = release
        self.settings = settings
        self._process: subprocess.Popen[str] | None = None
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self._files = 0

    def write(self, path: Path | str, rows: pa.Table, options: Mapping[str, str], *, mode: str = "append") -> None:
        """`df.write.format("hudi")` of JVM Hudi."""
        source = self._new_file()
        pq.write_table(rows, source)
        self._ask("write", path=str(path), input=str(source), options=dict(options), mode=mode)

    def read(self, path: Path | str, options: Mapping[str, str] | None = None) -> pa.Table:
        """Every row and column, meta columns included, as `spark.read.format("hudi")` of JVM Hudi gives them."""
        target = self._new_file()
        self._ask("read", path=str(path), options=dict(options or {}), output=str(target))
        return pq.read_table(target)

    def sql(self, statement: str) -> list[dict[str, str | None]]:
        """The rows that a Spark SQL statement or procedure returns, every value as text."""
        answer = self._ask("sql", statement=statement)
        return [dict(zip(answer["columns"], row, strict=True)) for row in answer["rows"]]

    def stream(
        self,
        source: Mapping[str, Any],
        path: Path | str,
        options: Mapping[str, str],
        *,
        checkpoint: Path | str,
        source_options: Mapping[str, str] | None = None,
        mode: str = "append",
    ) -> dict[str, Any]:
        """A stream of JVM Hudi's sink that writes all that is there, and stops: the id of its query and its batches.

        `source`: its format, its schema (None: it has its own), its path, and its columns (all, if none are named).
        """
        given = {"source": {"schema": None, "columns": ["*"], **source}, "source_options": dict(source_options or {})}
        to = {"path": str(path), "options": dict(options), "checkpoint": str(checkpoint), "mode": mode}
        return self._ask("stream", **given, **to)

    def newest_commit(self, path: Path | str) -> dict[str, Any]:
        """What JVM Hudi (1.0.1 or newer) reads in the newest commit on the active timeline.

        `checkpoint`: by its `CheckpointUtils`; `smallest` and `largest`: the event times of its rows, in milliseconds.
        """
        return self._ask("commit", path=str(path))

    def stop(self) -> None:
        """End the process, if there is one. The next request starts a new one."""
        if self._process is None:
            return
        if self._process.poll() is None:
            try:
                self._ask("stop")
                self._process.wait(timeout=30)
            except (OSError, OracleError, subprocess.TimeoutExpired):
                self._process.kill()
                self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    def kill(self) -> None:
        """`kill -9` of the JVM, whatever it is doing; from any thread. Then `stop`, before the next request."""
        self._to_the_jvm(psutil.Process.kill)

    def suspend(self) -> None:
        """Let the JVM stand still, whatever it is doing; from any thread."""
        self._to_the_jvm(psutil.Process.suspend)

    def resume(self) -> None:
        """Let the JVM go on."""
        self._to_the_jvm(psutil.Process.resume)

    def _to_the_jvm(self, act: Callable[[psutil.Process], None]) -> None:
        assert self._process is not None
        for process in psutil.Process(self._process.pid).children(recursive=True):
            with suppress(psutil.NoSuchProcess):  # Hadoop starts a program now and then, which is soon gone
                if process.name() == "java":
                    act(process)

    def _new_file(self) -> Path:
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="pyhudi-judge-")
        self._files += 1
        return Path(self._scratch.name) / f"{self._files}.parquet"

    def _ask(self, operation: str, **fields: Any) -> dict[str, Any]:
        process = self._process or self._start()
        assert process.stdin is not None
        process.stdin.write(json.dumps({"op": operation, **fields}) + "\n")
        process.stdin.flush()
        return self._answer(process)

    def _start(self) -> subprocess.Popen[str]:
        log_folder = ORACLE_HOME / "logs"
        log_folder.mkdir(parents=True, exist_ok=True)
        with (log_folder / f"{self.release}.log").open("a") as log:
            command: list[str | Path] = [ORACLE_HOME / "venv" / "bin" / "python", SERVER, "--jar", jar_of(self.release)]
            if self.settings is not None:
                command += ["--settings", self.settings]
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._answer(self._process)
        return self._process

    def _answer(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdout is not None
        watchdog = threading.Timer(ANSWER_SECONDS_MAX, process.kill)
        watchdog.start()
        try:
            line = process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise OracleError(f"Hudi {self.release} died or hung; see .oracle/logs/{self.release}.log", "")
        answer: dict[str, Any] = json.loads(line)
        if not answer.pop("ok"):
            raise OracleError(answer["error"], answer["trace"])
        return answer
