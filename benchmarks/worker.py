"""One peer in one process: `python worker.py '<json>'`, started by `processes.py` under the peer's own Python.

Writes one JSON object per line to stdout as things happen; what Spark prints goes to stderr. The last line is
`{"event": "done"}`; without it the run failed.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any, TextIO

from inputs import Inputs
from operations import Round
from peers.protocol import Peer


class LineReport:
    """Sends each event to the parent."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def send(self, event: str, **fields: Any) -> None:
        print(json.dumps({"event": event, **fields}), file=self._out, flush=True)

    def begin(self, operation: str) -> None:
        self.send("begin", operation=operation)

    def end(self, operation: str, seconds: list[float], answer: Any) -> None:
        self.send("end", operation=operation, seconds=seconds, answer=answer)


class Silence:
    """The report of the warm-up round."""

    def begin(self, operation: str) -> None:
        del operation

    def end(self, operation: str, seconds: list[float], answer: Any) -> None:
        del operation, seconds, answer


def main() -> None:
    request = json.loads(sys.argv[1])
    report = LineReport(_claim_stdout())
    _use_cores(request["cores"])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    work = Path(request["work"])
    module, _, name = request["peer"].partition(":")
    peer: Peer = getattr(importlib.import_module(module), name)(work, request["jars"])
    peer.start()
    try:
        operations = frozenset(request["operations"])
        if request["warm_up"] is not None:
            # A round on few rows: code is loaded and compiled, worker processes are there, caches have their size.
            Round(peer, Inputs(Path(request["warm_up"])), work / "warm_up", operations, Silence()).run()
        for number in range(request["rounds"]):
            report.send("round", number=number)
            folder = work / f"round_{number}"
            tables = Round(peer, Inputs(Path(request["inputs"])), folder, operations, report).run()
            report.send("tables", fingerprints=tables)
    finally:
        peer.stop()
    report.send("done")


def _claim_stdout() -> TextIO:
    """The real stdout for reports; whatever else this process or the JVM prints goes to stderr."""
    reports = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return reports


def _use_cores(count: int) -> None:
    """Keep this process and all that it starts on the first `count` cores, where the system can do that."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


if __name__ == "__main__":
    main()
