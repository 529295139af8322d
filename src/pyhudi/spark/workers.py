"""Set-up of the Python workers in which tasks of pyhudi run."""

from __future__ import annotations

import gc
import os
from functools import cache

import pyarrow as pa


@cache
def begin_task() -> None:
    """Prepare this worker process for tasks of pyhudi. Only the first call has an effect.

    The garbage collector ignores all objects that exist now. Spark runs a collection after each task, and a collection
    over the modules of pyarrow, PySpark and pyhudi takes 40 ms, as long as a small task.

    Arrow allocates memory from the C library, unless the environment selects a memory pool. Arrow's own pool returns
    memory to the system at once. A task that processes batch after batch would then map and clear the same pages
    repeatedly, which takes a fifth of a bulk insert's processor time in the worker.
    """
    if "ARROW_DEFAULT_MEMORY_POOL" not in os.environ:
        pa.set_memory_pool(pa.system_memory_pool())
    gc.collect()
    gc.freeze()
