"""`Recorder`: the newest values of all metrics of one reporter, from events and from counted stores."""

from __future__ import annotations

import copy
import logging
import threading
from typing import Final

from pyhudi.events import ConflictsChecked, Event, Observe
from pyhudi.storage.metered import Call, Meter
from pyhudi.telemetry.names import counters_of, timings_of, values_of
from pyhudi.telemetry.prices import dollars_of
from pyhudi.telemetry.timing import Timing

_KINDS: Final = {
    Call.PUT: "write",
    Call.GET: "read",
    Call.HEAD: "read",
    Call.LIST: "list",
    Call.DELETE: "delete",
}
"""The names of the kinds of calls in metrics."""
_log = logging.getLogger("pyhudi")


class Recorder:
    """The values of metrics by name. Thread-safe."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._values: dict[str, float] = {}
        self._timings: dict[str, Timing] = {}
        self._meters: dict[str, Meter] = {}
        self._prefixes: dict[str, str] = {}

    def observer(self, prefix: str, base_path: str, *, counts_conflicts: bool) -> Observe:
        """What records the events of a table, under names that begin with `prefix`."""
        with self._guard:
            self._prefixes[base_path] = prefix

        def observe(event: Event) -> None:
            if counts_conflicts or not isinstance(event, ConflictsChecked):
                self._record(prefix, event)

        return observe

    def meter_of(self, uri: str) -> Meter:
        """The meter of all calls to a store since the process began."""
        with self._guard:
            return self._meters.setdefault(uri, Meter())

    def values(self) -> dict[str, float]:
        """The values of now by name, and the numbers of each timer by its name and theirs."""
        timings = self.timings()
        numbers = {f"{name}.{key}": value for name in timings for key, value in timings[name].numbers().items()}
        return dict(sorted({**self.gauges(), **numbers}.items()))

    def timings(self) -> dict[str, Timing]:
        """The timers of now, by name."""
        with self._guard:
            return {name: copy.deepcopy(timing) for name, timing in sorted(self._timings.items())}

    def gauges(self) -> dict[str, float]:
        """The values of now by name, without timers."""
        with self._guard:
            values = dict(self._values)
            meters = [(uri, self._prefixes[uri], meter) for uri, meter in self._meters.items() if uri in self._prefixes]
        for uri, prefix, meter in meters:
            _add_calls(values, prefix, uri, meter)
        return dict(sorted(values.items()))

    def _record(self, prefix: str, event: Event) -> None:
        try:
            set_to = {_name(prefix, name): value for name, value in values_of(event)}
            with self._guard:
                self._values.update(set_to)
                for name in counters_of(event):
                    full = _name(prefix, name)
                    self._values[full] = self._values.get(full, 0) + 1
                for name, seconds in timings_of(event):
                    self._timings.setdefault(_name(prefix, name), Timing()).add(seconds)
        except Exception:  # noqa: BLE001  # the commit stands, whatever a metric is made of
            _log.warning("a metric could not be recorded; what it measures goes on", exc_info=True)


def _name(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _add_calls(values: dict[str, float], prefix: str, uri: str, meter: Meter) -> None:
    is_s3 = uri.startswith(("s3:", "s3a:"))
    for (purpose, kind), (calls, size) in meter.totals().items():
        name, of_kind = _name(prefix, f"storage.{purpose}"), _KINDS[kind]
        values[f"{name}.{of_kind}.requests"] = values.get(f"{name}.{of_kind}.requests", 0) + calls
        if of_kind in ("read", "write"):
            values[f"{name}.{of_kind}.bytes"] = values.get(f"{name}.{of_kind}.bytes", 0) + size
        if is_s3:
            values[f"{name}.dollars"] = values.get(f"{name}.dollars", 0.0) + dollars_of({kind: calls})
