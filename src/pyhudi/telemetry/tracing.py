"""Spans of OpenTelemetry for the steps of writes, reads and table services.

pyhudi uses OpenTelemetry's API where the program has imported it, as every program does that configures an SDK. All
others pay one look into `sys.modules` for a step.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

_API = "opentelemetry.trace"


def span(name: str, **attributes: str | int) -> AbstractContextManager[None]:
    """A span for the block, inside that of the calling thread; nothing where the program traces nothing."""
    return nullcontext() if _API not in sys.modules else _span(name, attributes)


@contextmanager
def _span(name: str, attributes: dict[str, str | int]) -> Iterator[None]:
    from opentelemetry import trace

    tracer = trace.get_tracer("pyhudi")
    with tracer.start_as_current_span(name, attributes={f"hudi.{key}": value for key, value in attributes.items()}):
        yield
