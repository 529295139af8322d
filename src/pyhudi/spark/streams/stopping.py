"""`query.stop()` in the midst of a micro-batch: the end of the batch, said so that Spark knows it for that.

Spark looks for an interruption in the text of the Python error with a regular expression that recurses for each
character of Java's stack trace, and overflows its stack: pages of output for each stop. So the trace is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from py4j.protocol import Py4JJavaError

_INTERRUPTED: Final = "java.lang.InterruptedException"
_Interrupted = type("Py4JJavaError", (Exception,), {"__module__": "py4j.protocol"})
"""Named as the error that Spark looks for."""


@contextmanager
def stopped_quietly() -> Iterator[None]:
    """Raise an interruption of the driver's JVM without its stack trace; other errors as they are."""
    try:
        yield
    except Py4JJavaError as error:
        if not _is_interruption(error.java_exception):
            raise
        raise _Interrupted(f"An error occurred while calling the driver.\n: {_INTERRUPTED}") from None


def _is_interruption(error: Any) -> bool:
    while error is not None:
        if error.getClass().getName() == _INTERRUPTED:
            return True
        error = error.getCause()
    return False
