"""Run by test_error_table_crashes.py: one round of a streamer, killed after a commit.

Its arguments: the folder, and `write_errors`, to be killed after the commit of the error table and before that of the
rows, or `write`, after that one.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from pyhudi.streamer import ingest, run


def killed_after(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, after which the process is killed."""

    def wrapped(*arguments: Any, **named: Any) -> Any:
        function(*arguments, **named)
        os.kill(os.getpid(), signal.SIGKILL)

    return wrapped


def read(folder: str) -> int:
    """Read what is new in the folder `landing` beside the two tables, `table` and `errors`; how many batches."""
    options = {
        "hoodie.streamer.source.dfs.root": f"{folder}/landing",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.errortable.enable": "true",
        "hoodie.errortable.base.path": f"{folder}/errors",
    }
    return run(f"{folder}/table", table_type="mor", hoodie_conf=options).batches


if __name__ == "__main__":
    step = sys.argv[2]
    setattr(ingest, step, killed_after(getattr(ingest, step)))
    read(sys.argv[1])
