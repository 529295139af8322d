"""`Timing`: how long something took, time after time, in the numbers of a timer of Dropwizard Metrics.

JVM Hudi's timers are of that library, so dashboards ask for these names: `commit.timer.p95` in Graphite,
`commit_timer{quantile="0.95"}` in Prometheus.
"""

from __future__ import annotations

import statistics
from collections import deque
from typing import Final

QUANTILES: Final = {"p50": 0.5, "p75": 0.75, "p95": 0.95, "p98": 0.98, "p99": 0.99, "p999": 0.999}
_KEPT: Final = 1028
"""As many durations as Dropwizard's reservoir holds. It forgets older ones bit by bit; this one keeps the newest."""


class Timing:
    """The count of all durations, and the newest of them. Not thread-safe."""

    def __init__(self) -> None:
        self._count = 0
        self._newest: deque[float] = deque(maxlen=_KEPT)

    def add(self, seconds: float) -> None:
        """Take one more duration in."""
        self._count += 1
        self._newest.append(seconds)

    @property
    def count(self) -> int:
        """How many durations there were."""
        return self._count

    def quantiles(self) -> dict[str, float]:
        """Seconds by the names of `QUANTILES`; of a timing that has at least one duration."""
        ordered = sorted(self._newest)
        return {name: ordered[min(int(part * len(ordered)), len(ordered) - 1)] for name, part in QUANTILES.items()}

    def numbers(self) -> dict[str, float]:
        """The count, and milliseconds by the names of Dropwizard's reporters."""
        seconds = {
            "min": min(self._newest),
            "max": max(self._newest),
            "mean": statistics.fmean(self._newest),
            "stddev": statistics.pstdev(self._newest),
            **self.quantiles(),
        }
        return {"count": self._count, **{name: round(value * 1000, 3) for name, value in seconds.items()}}
