"""Run by test_hdfs.py: makes a call of a store on HDFS, and kills itself inside of it.

Its arguments: the URI of the root, the method of the client before or after which to die (`create`, `rename`), whether
`before` or `after`, and the call of the store.
"""

from __future__ import annotations

import os
import signal
import sys

import hdfs_native

from pyhudi.storage.open import open_storage


def main(root: str, method: str, when: str, call: str) -> None:
    """Replace the client's method by one that ends this process, and make the call."""
    storage = open_storage(root)
    inner = getattr(hdfs_native.Client, method)

    def killed(*arguments: object, **named: object) -> None:
        if when == "after":
            kept = inner(*arguments, **named)  # a writer that is collected would be closed
        os.kill(os.getpid(), signal.SIGKILL)
        del kept

    setattr(hdfs_native.Client, method, killed)
    if call == "open_output":
        storage.open_output("t/file")
    else:
        getattr(storage, call)("t/file", b"content")


if __name__ == "__main__":
    main(*sys.argv[1:])
