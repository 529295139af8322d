"""Reporters: how the values of metrics reach those who look at them, in threads that no write waits for.

A server that does not answer is a warning in the log, once until it answers again.
"""

from __future__ import annotations

import atexit
import logging
import re
import socket
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

from pyhudi.environment import SYSTEM
from pyhudi.telemetry.recorder import Recorder
from pyhudi.telemetry.timing import QUANTILES, Timing

ANSWER_SECONDS = 5.0
_PRINTED_EVERY_SECONDS = 30.0
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_log = logging.getLogger("pyhudi")
_metrics_log = logging.getLogger("pyhudi.metrics")


def serve_prometheus(recorder: Recorder, *, port: int) -> int | None:
    """Answer GET with the values, on all addresses of the machine; the port, or None where another process has it.

    0: any free port.
    """

    class Handler(BaseHTTPRequestHandler):
        timeout = ANSWER_SECONDS

        def do_GET(self) -> None:
            body = prometheus_text(recorder.gauges(), recorder.timings(), {}).encode()
            self.send_response(200)
            self.send_header("Content-Type", _CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name that is overridden
            del format, args

    try:
        server = ThreadingHTTPServer(("", port), Handler)
    except OSError as error:
        _log.warning("metrics are not served: port %s could not be opened: %s", port, error)
        return None
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, name="pyhudi metrics", daemon=True).start()
    return server.server_address[1]


def send_periodically(send: Callable[[], None], *, to: str, seconds: float, at_exit: Callable[[], None]) -> None:
    """Call `send` every so many seconds, and `at_exit` when the process ends. `to`: where it sends, for warnings."""
    reports = _Reports(send, to)

    def repeat() -> bool:
        reports.attempt()
        return True

    SYSTEM.timers.every(seconds, repeat, name="pyhudi metrics")
    atexit.register(_Reports(at_exit, to).attempt)


class _Reports:
    """Attempts to report, of which the first failure in a row is a warning."""

    def __init__(self, send: Callable[[], None], to: str) -> None:
        self._send, self._to = send, to
        self._is_failing = False

    def attempt(self) -> None:
        """Report; log a failure."""
        try:
            self._send()
        except (OSError, ValueError) as error:
            if not self._is_failing:
                _log.warning("metrics could not be reported to %s, which stops nothing else: %s", self._to, error)
            self._is_failing = True
        else:
            self._is_failing = False


def gateway_url(host: str, port: int, job: str) -> str:
    """The address of a job's values at a push gateway."""
    scheme = "" if host.startswith(("http://", "https://")) else "http://"
    return f"{scheme}{host}:{port}/metrics/job/{quote(job, safe='')}"


def push(recorder: Recorder, url: str, labels: dict[str, str]) -> None:
    """Replace the values of a job at a push gateway. Raises OSError where that fails."""
    body = prometheus_text(recorder.gauges(), recorder.timings(), labels).encode()
    _request(urllib.request.Request(url, body, {"Content-Type": _CONTENT_TYPE}, method="PUT"))  # noqa: S310  # by the user


def delete_pushed(url: str) -> None:
    """Take the values of a job from a push gateway. Raises OSError where that fails."""
    _request(urllib.request.Request(url, method="DELETE"))  # noqa: S310  # by the user


def _request(request: urllib.request.Request) -> None:
    with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as response:  # noqa: S310  # by the user
        response.read()


def send_to_graphite(recorder: Recorder, *, host: str, port: int, prefix: str) -> None:
    """Send the values to a Graphite server. Raises OSError where that fails."""
    text = graphite_text(recorder.values(), prefix=prefix, at_seconds=SYSTEM.clock.now_ms() // 1000)
    with socket.create_connection((host, port), timeout=ANSWER_SECONDS) as connection:
        connection.sendall(text.encode())


def print_values(recorder: Recorder) -> None:
    """Print the values to standard output."""
    sys.stdout.write(plain_text(recorder.values()))
    sys.stdout.flush()


def log_values(recorder: Recorder) -> None:
    """Log the values, with level INFO, in the logger "pyhudi.metrics"."""
    for name, value in recorder.values().items():
        _metrics_log.info("%s=%s", name, value)


def print_periodically(report: Callable[[], None]) -> None:
    """Print or log every 30 seconds, as JVM Hudi does, and when the process ends."""
    send_periodically(report, to="this process", seconds=_PRINTED_EVERY_SECONDS, at_exit=report)


_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9:_]")
_NOT_IN_PATHS = re.compile(r"[^\w.:-]", re.ASCII)
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def prometheus_text(values: Mapping[str, float], timings: Mapping[str, Timing], labels: Mapping[str, str]) -> str:
    """Prometheus' text format: gauges, and timers as summaries in seconds, as its bridge from Dropwizard makes them.

    Dots of names become underscores, as in JVM Hudi. Of two metrics whose names are the same then, the first is there.
    """
    braces = _braces(labels)
    metrics: dict[str, str] = {}
    for full, value in values.items():
        name = prometheus_name(full)
        metrics.setdefault(name, f"# TYPE {name} gauge\n{name}{braces} {_number(value)}\n")
    for full, timing in timings.items():
        name = prometheus_name(full)
        quantiles = "".join(
            f"{name}{_braces({**labels, 'quantile': str(QUANTILES[key])})} {_number(seconds)}\n"
            for key, seconds in timing.quantiles().items()
        )
        metrics.setdefault(name, f"# TYPE {name} summary\n{quantiles}{name}_count{braces} {timing.count}\n")
    return "".join(metrics.values())


def _braces(labels: Mapping[str, str]) -> str:
    inside = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def prometheus_name(name: str) -> str:
    """A name that Prometheus accepts."""
    legal = _NOT_IN_NAMES.sub("_", name)
    return f"_{legal}" if legal[:1].isdigit() else legal


def graphite_text(values: Mapping[str, float], *, prefix: str, at_seconds: int) -> str:
    """Graphite's plain text: a line per value. What would end a name becomes an underscore."""
    before = f"{prefix}." if prefix else ""
    lines = (
        f"{_NOT_IN_PATHS.sub('_', before + name)} {_number(value)} {at_seconds}\n" for name, value in values.items()
    )
    return "".join(lines)


def plain_text(values: Mapping[str, float]) -> str:
    """A line `name = value` for each."""
    return "".join(f"{name!s} = {_number(value)}\n" for name, value in values.items())


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))
