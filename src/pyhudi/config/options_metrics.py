"""Options of metrics: whether this process measures its work on tables, and who gets the values.

Keys and defaults are those of Hudi 1.2.0.
"""

# ruff: noqa: RUF009 - option() declares a field, as dataclasses.field does
from __future__ import annotations

import enum
from dataclasses import dataclass

from pyhudi.config.option import option
from pyhudi.config.parsers import Parser, any_text, integer, one_of, text


class ReporterType(enum.Enum):
    """Who gets the metrics."""

    PROMETHEUS = "PROMETHEUS"
    PROMETHEUS_PUSHGATEWAY = "PROMETHEUS_PUSHGATEWAY"
    GRAPHITE = "GRAPHITE"
    CONSOLE = "CONSOLE"
    SLF4J = "SLF4J"
    INMEMORY = "INMEMORY"


_INSTEAD = "pyhudi has no reporter of this type: use PROMETHEUS"
_REFUSED = {
    "JMX": f"{_INSTEAD}, which a JMX exporter serves, too, or read the values by pyhudi.metrics()",
    "DATADOG": f"{_INSTEAD}, whose endpoint Datadog's agent scrapes (its OpenMetrics check)",
    "CLOUDWATCH": f"{_INSTEAD}, whose endpoint the CloudWatch agent scrapes",
    "M3": f"{_INSTEAD}, whose endpoint M3 scrapes through its coordinator",
}


def _labels(value: str) -> tuple[tuple[str, str], ...]:
    pairs = tuple(pair.strip().partition(":") for pair in value.split(",") if pair.strip())
    if not all(name.strip().isidentifier() and colon for name, colon, _ in pairs):
        raise ValueError(value)
    return tuple((name.strip(), label.strip()) for name, _, label in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsOptions:
    """Metrics of writes and table services, under the names of Hudi."""

    enabled: bool = option("hoodie.metrics.on", default=False, doc="Whether writes and table services are measured.")
    reporter: ReporterType = option(
        "hoodie.metrics.reporter.type",
        parse=one_of(ReporterType, refused=_REFUSED),
        default=ReporterType.GRAPHITE,
        doc="Who gets the values. PROMETHEUS: whoever asks this process by HTTP. PROMETHEUS_PUSHGATEWAY and GRAPHITE: a"
        ' server. CONSOLE: standard output. SLF4J: the logger "pyhudi.metrics". INMEMORY: only `pyhudi.metrics()`.',
    )
    prefix: str | None = option(
        "hoodie.metrics.reporter.metricsname.prefix",
        parse=any_text(),
        default=None,
        doc="What the names of the metrics begin with; the name of the table if not given.",
    )
    locks: bool = option(
        "hoodie.metrics.lock.enable",
        default=False,
        doc="Whether conflicts between writers are counted, too.",
    )
    prometheus_port: int = option(
        "hoodie.metrics.prometheus.port",
        parse=integer(minimum=0),
        default=9090,
        doc="PROMETHEUS: the port on which this process answers, on all addresses of the machine.",
    )
    gateway_host: str = option(
        "hoodie.metrics.pushgateway.host",
        parse=text("a host name, after https:// for TLS"),
        default="localhost",
        doc="PROMETHEUS_PUSHGATEWAY: where the gateway is.",
    )
    gateway_port: int = option(
        "hoodie.metrics.pushgateway.port",
        parse=integer(minimum=1),
        default=9091,
        doc="PROMETHEUS_PUSHGATEWAY: its port.",
    )
    gateway_period_seconds: int = option(
        "hoodie.metrics.pushgateway.report.period.seconds",
        parse=integer(minimum=1, unit="seconds"),
        default=30,
        doc="PROMETHEUS_PUSHGATEWAY: how often the values are sent.",
    )
    gateway_deletes: bool = option(
        "hoodie.metrics.pushgateway.delete.on.shutdown",
        default=True,
        doc="PROMETHEUS_PUSHGATEWAY: whether the values are taken from the gateway when this process ends. With false"
        " those of the end are sent instead.",
    )
    gateway_job: str = option(
        "hoodie.metrics.pushgateway.job.name",
        parse=any_text(),
        default="",
        doc="PROMETHEUS_PUSHGATEWAY: the name of the job.",
    )
    gateway_labels: tuple[tuple[str, str], ...] = option(
        "hoodie.metrics.pushgateway.report.labels",
        parse=Parser(_labels, "pairs name:value, separated by commas"),
        default=(),
        doc="PROMETHEUS_PUSHGATEWAY: labels of all values.",
    )
    gateway_random_suffix: bool = option(
        "hoodie.metrics.pushgateway.random.job.name.suffix",
        default=True,
        doc="PROMETHEUS_PUSHGATEWAY: whether the name of the job ends with a random number, so that processes do not"
        " replace each other's values.",
    )
    graphite_host: str = option(
        "hoodie.metrics.graphite.host", parse=text("a host name"), default="localhost", doc="GRAPHITE: where it is."
    )
    graphite_port: int = option(
        "hoodie.metrics.graphite.port", parse=integer(minimum=1), default=4756, doc="GRAPHITE: its port."
    )
    graphite_prefix: str = option(
        "hoodie.metrics.graphite.metric.prefix",
        parse=any_text(),
        default="",
        doc="GRAPHITE: what stands before all names.",
    )
    graphite_period_seconds: int = option(
        "hoodie.metrics.graphite.report.period.seconds",
        parse=integer(minimum=1, unit="seconds"),
        default=30,
        doc="GRAPHITE: how often the values are sent.",
    )
