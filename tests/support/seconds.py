"""What calls cost, where only the order of magnitude may decide: machines differ, and are busy."""

from __future__ import annotations

import time
from collections.abc import Callable

CALLS = 3


def cpu_seconds(call: Callable[[], object]) -> float:
    """The processor time of the cheapest call: another one met the garbage collector, or a thread of another test."""
    costs = []
    for _ in range(CALLS):
        began = time.process_time()
        call()
        costs.append(time.process_time() - began)
    return min(costs)
