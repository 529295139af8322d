"""Options of hooks: who gets a message of each commit, and who may refuse one.

Keys and defaults are those of Hudi 1.2.0.
"""

# ruff: noqa: RUF009 - option() declares a field, as dataclasses.field does
from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass

from pyhudi.config.option import option
from pyhudi.config.parsers import Parser, integer, python_name, text
from pyhudi.errors import UnsupportedFeatureError

HTTP_CALLBACK = "org.apache.hudi.callback.impl.HoodieWriteCommitHttpCallback"
KAFKA_CALLBACK = "org.apache.hudi.utilities.callback.kafka.HoodieWriteCommitKafkaCallback"
TABLE_VARIABLE = "<TABLE_NAME>"
_VALIDATORS = "org.apache.hudi.client.validator."
EQUALITY = "SqlQueryEqualityPreCommitValidator"
INEQUALITY = "SqlQueryInequalityPreCommitValidator"
SINGLE_RESULT = "SqlQuerySingleResultPreCommitValidator"
SQL_VALIDATORS = (EQUALITY, INEQUALITY, SINGLE_RESULT)


class FailurePolicy(enum.Enum):
    """What the refusal of a validator does."""

    FAIL = "FAIL"
    WARN_LOG = "WARN_LOG"


def _callback(value: str) -> str:
    if value in (HTTP_CALLBACK, KAFKA_CALLBACK):
        return value
    if value.startswith("org.apache."):
        raise UnsupportedFeatureError(
            f"this callback of JVM Hudi is not one of pyhudi's: use {HTTP_CALLBACK}, {KAFKA_CALLBACK} or a function of "
            "Python"
        )
    return python_name().read(value)


def _headers(value: str) -> tuple[tuple[str, str], ...]:
    pairs = tuple(part.partition(":") for part in value.split(";") if part.strip())
    if any(not colon or not name.strip() or "\n" in text or "\r" in text for name, colon, text in pairs):
        raise ValueError(value)
    return tuple((name.strip(), text.strip()) for name, _, text in pairs)


def _validators(value: str) -> tuple[str, ...]:
    return tuple(_validator(part.strip()) for part in value.split(",") if part.strip())


def _validator(name: str) -> str:
    if (short := name.removeprefix(_VALIDATORS)) in SQL_VALIDATORS:
        return short
    if name.startswith("org.apache."):
        raise UnsupportedFeatureError(
            f"pyhudi has no validator {name}: it has {', '.join(SQL_VALIDATORS)}, and takes functions of Python"
        )
    return python_name().read(name)


def _queries(value: str) -> tuple[str, ...]:
    queries = tuple(part.strip() for part in value.split(";") if part.strip())
    if not all(TABLE_VARIABLE in query for query in queries):
        raise ValueError(value)
    return queries


def _expectations(value: str) -> tuple[tuple[str, str], ...]:
    parts = tuple(query.rpartition("#") for query in _queries(value))
    if not all(mark and TABLE_VARIABLE in query for query, mark, _ in parts):
        raise ValueError(value)
    return tuple((query.strip(), expected.strip()) for query, _, expected in parts)


_SQL = f"queries separated by `;`, each of which reads {TABLE_VARIABLE}"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class CallbackOptions:
    """Who gets a message of each commit of a write, a compaction or a clustering. `repr` shows no key and no header."""

    enabled: bool = option(
        "hoodie.write.commit.callback.on",
        default=False,
        doc="Whether a message of each commit is sent.",
    )
    callback: str = option(
        "hoodie.write.commit.callback.class",
        parse=Parser(_callback, "a callback of JVM Hudi for HTTP or Kafka, or package.module:function"),
        default=HTTP_CALLBACK,
        doc=f"Who gets the message: {HTTP_CALLBACK}, {KAFKA_CALLBACK}, or a Python function, which is called with the"
        " message as a dictionary.",
    )
    url: str | None = option(
        "hoodie.write.commit.callback.http.url",
        parse=text("a URL"),
        default=None,
        doc="HTTP: where the message is posted, as JSON.",
    )
    api_key: str = option(
        "hoodie.write.commit.callback.http.api.key",
        parse=text(),
        default="hudi_write_commit_http_callback",
        doc="HTTP: the value of the header HUDI-CALLBACK-KEY.",
    )
    timeout_seconds: int = option(
        "hoodie.write.commit.callback.http.timeout.seconds",
        parse=integer(minimum=1, unit="seconds"),
        default=30,
        doc="HTTP and Kafka: how long to wait for an answer.",
    )
    headers: tuple[tuple[str, str], ...] = option(
        "hoodie.write.commit.callback.http.custom.headers",
        parse=Parser(_headers, "headers as name:value, separated by semicolons"),
        default=(),
        doc="HTTP: more headers.",
    )
    servers: str | None = option(
        "hoodie.write.commit.callback.kafka.bootstrap.servers",
        parse=text("hosts with ports"),
        default=None,
        doc="Kafka: the brokers.",
    )
    topic: str | None = option(
        "hoodie.write.commit.callback.kafka.topic", parse=text(), default=None, doc="Kafka: the topic of the messages."
    )
    partition: int | None = option(
        "hoodie.write.commit.callback.kafka.partition",
        parse=integer(minimum=0),
        default=None,
        doc="Kafka: the partition; if not given, that of the table's name.",
    )
    acks: str = option(
        "hoodie.write.commit.callback.kafka.acks",
        parse=text("0, 1 or all"),
        default="all",
        doc="Kafka: which brokers must have the message.",
    )
    retries: int = option(
        "hoodie.write.commit.callback.kafka.retries",
        parse=integer(minimum=0),
        default=3,
        doc="Kafka: how often the client tries again.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatorOptions:
    """Who may refuse a write before its commit. SQL is that of DuckDB."""

    validators: tuple[str, ...] = option(
        "hoodie.precommit.validators",
        parse=Parser(_validators, "validators separated by commas: names of JVM Hudi's for SQL, or module:function"),
        default=(),
        doc=f"The validators: {', '.join(SQL_VALIDATORS)}, with or without their package, and functions of Python.",
    )
    equality: tuple[str, ...] = option(
        "hoodie.precommit.validators.equality.sql.queries",
        parse=Parser(_queries, _SQL),
        default=(),
        doc=f"{EQUALITY}: queries whose rows must be the same before and after the write.",
    )
    inequality: tuple[str, ...] = option(
        "hoodie.precommit.validators.inequality.sql.queries",
        parse=Parser(_queries, _SQL),
        default=(),
        doc=f"{INEQUALITY}: queries whose rows must be others after the write.",
    )
    single_values: tuple[tuple[str, str], ...] = option(
        "hoodie.precommit.validators.single.value.sql.queries",
        parse=Parser(_expectations, f"{_SQL} and ends with # and its result"),
        default=(),
        doc=f"{SINGLE_RESULT}: queries of one value after the write, each with the value that is expected, after a #.",
    )
    policy: FailurePolicy = option(
        "hoodie.precommit.validators.failure.policy",
        default=FailurePolicy.FAIL,
        doc="FAIL: what a validator refuses is not committed. WARN_LOG: it is, with a warning in the log.",
    )


def hook_problems(callbacks: CallbackOptions, validators: ValidatorOptions) -> Iterator[str]:
    """What is missing in the options of hooks."""
    if callbacks.enabled and callbacks.callback == HTTP_CALLBACK and callbacks.url is None:
        yield "the callback by HTTP needs hoodie.write.commit.callback.http.url"
    if callbacks.enabled and callbacks.callback == KAFKA_CALLBACK and None in (callbacks.servers, callbacks.topic):
        yield "the callback by Kafka needs hoodie.write.commit.callback.kafka.bootstrap.servers and .topic"
    queries = {
        EQUALITY: ("equality", validators.equality),
        INEQUALITY: ("inequality", validators.inequality),
        SINGLE_RESULT: ("single.value", validators.single_values),
    }
    for name, (kind, given) in queries.items():
        if name in validators.validators and not given:
            yield f"{name} needs hoodie.precommit.validators.{kind}.sql.queries"
