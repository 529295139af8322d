"""What every task of ours does first in its Python worker."""

from __future__ import annotations

import gc
from functools import cache


@cache
def begin_task() -> None:
    """Take what is loaded by now out of the garbage collector's sight, once per process.

    Spark has a worker collect its garbage after each task. Going through the modules of pyarrow, PySpark and pyhudi
    again takes 40 ms each time, as long as a small task.
    """
    gc.collect()
    gc.freeze()
