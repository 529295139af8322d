"""The metrics of this process: a recorder and a reporter for each set of options about reporters."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from functools import partial

from pyhudi.config.options_metrics import MetricsOptions, ReporterType
from pyhudi.environment import SYSTEM
from pyhudi.events import Observe
from pyhudi.telemetry.recorder import Recorder
from pyhudi.telemetry.reporters import (
    delete_pushed,
    gateway_url,
    log_values,
    print_periodically,
    print_values,
    push,
    send_periodically,
    send_to_graphite,
    serve_prometheus,
)

_guard = threading.Lock()
_recorders: dict[tuple[int, MetricsOptions], Recorder] = {}


def _begin_anew() -> None:
    """Reset the guard in a forked child: a thread of the parent may have held it."""
    global _guard  # noqa: PLW0603
    _guard = threading.Lock()


os.register_at_fork(after_in_child=_begin_anew)


def recorder_of(options: MetricsOptions) -> Recorder:
    """The recorder of these options, whose reporter begins with the first call. A forked child has its own."""
    key = (os.getpid(), replace(options, enabled=True, prefix=None, locks=False))
    with _guard:
        if key not in _recorders:
            recorder = Recorder()
            _begin(recorder, options)
            _recorders[key] = recorder
        return _recorders[key]


def metrics() -> dict[str, float]:
    """The newest values of all metrics of this process, by Hudi's names; empty where no table has `hoodie.metrics.on`.

    The names of `docs/metrics.md`, each after the name of the table. Values of tasks that Spark's workers run are in
    what the writes report; their requests to the store are not counted.

    >>> pyhudi.metrics()
    {}
    """
    with _guard:
        recorders = [recorder for (process, _), recorder in _recorders.items() if process == os.getpid()]
    return {name: value for recorder in recorders for name, value in recorder.values().items()}


def metrics_observer(options: MetricsOptions, table_name: str, base_path: str) -> Observe:
    """What records the events of a table under its name, or the prefix of the options."""
    prefix = table_name.replace(".", "_") if options.prefix is None else options.prefix
    return recorder_of(options).observer(prefix, base_path, counts_conflicts=options.locks)


def _begin(recorder: Recorder, options: MetricsOptions) -> None:
    """Begin to report. Returns at once, and never raises: what cannot be reported is a warning."""
    match options.reporter:
        case ReporterType.PROMETHEUS:
            serve_prometheus(recorder, port=options.prometheus_port)
        case ReporterType.PROMETHEUS_PUSHGATEWAY:
            suffix = f"-{SYSTEM.ids.uuid()}" if options.gateway_random_suffix else ""
            url = gateway_url(options.gateway_host, options.gateway_port, f"{options.gateway_job}{suffix}" or "pyhudi")
            send = partial(push, recorder, url, dict(options.gateway_labels))
            at_exit = partial(delete_pushed, url) if options.gateway_deletes else send
            send_periodically(send, to=url, seconds=options.gateway_period_seconds, at_exit=at_exit)
        case ReporterType.GRAPHITE:
            send = partial(
                send_to_graphite,
                recorder,
                host=options.graphite_host,
                port=options.graphite_port,
                prefix=options.graphite_prefix,
            )
            to = f"{options.graphite_host}:{options.graphite_port}"
            send_periodically(send, to=to, seconds=options.graphite_period_seconds, at_exit=send)
        case ReporterType.CONSOLE:
            print_periodically(partial(print_values, recorder))
        case ReporterType.SLF4J:
            print_periodically(partial(log_values, recorder))
        case ReporterType.INMEMORY:
            pass
