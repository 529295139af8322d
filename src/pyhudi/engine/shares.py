"""Dividing work over tasks."""

from __future__ import annotations

import heapq
from collections.abc import Mapping

TASKS_PER_CORE = 2
"""More tasks than cores, so that one slow file does not leave the other cores idle."""


def spread(weights: Mapping[int, int], parts: int) -> tuple[tuple[int, ...], ...]:
    """Divide numbered items into at most `parts` shares of about equal weight, the heaviest item first."""
    shares: list[tuple[int, int, list[int]]] = [(0, n, []) for n in range(max(1, min(parts, len(weights))))]
    for item, weight in sorted(weights.items(), key=lambda entry: (-entry[1], entry[0])):
        total, number, share = heapq.heappop(shares)
        share.append(item)
        heapq.heappush(shares, (total + weight + 1, number, share))
    return tuple(tuple(sorted(share)) for _, _, share in sorted(shares, key=lambda entry: entry[1]) if share)
