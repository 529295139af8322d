"""Run by test_on_hdfs.py: upserts one row, and kills itself before one of its renames: the root, and which one."""

from __future__ import annotations

import os
import signal
import sys

import hdfs_native
import pyarrow as pa

import pyhudi


def main(root: str, turn: int) -> None:
    """Replace the client's rename by one that counts, and upsert."""
    inner, done = hdfs_native.Client.rename, 0

    def counted(*arguments: object, **named: object) -> None:
        nonlocal done
        done += 1
        if done == turn:
            os.kill(os.getpid(), signal.SIGKILL)
        inner(*arguments, **named)

    hdfs_native.Client.rename = counted  # type: ignore[method-assign]
    pyhudi.HudiTable.for_path(root).upsert(pa.table({"id": [1], "city": ["oslo"], "ts": [9]}))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
