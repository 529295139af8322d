"""Commit callbacks: HTTP, Kafka or a function is told of each commit, with the message of JVM Hudi.

Messages are sent in their order by one thread of the process, so that a commit waits for no server; a process ends when
they are sent, or their time is over. What cannot be sent is a warning in the log: the commit stands.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import urllib.request
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

from pyhudi.config.options_hooks import HTTP_CALLBACK, KAFKA_CALLBACK, CallbackOptions
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.events import ActionCompleted, Event, Observe
from pyhudi.format.metadata.commit import CommitMetadata, encode_stats

_log = logging.getLogger("pyhudi")
_Send = Callable[[Mapping[str, Any]], None]


def callback_observer(options: CallbackOptions, table_name: str) -> Observe:
    """What tells the callback of the options of each commit: of writes, compactions and clusterings.

    Raises `ConfigError` for a function that cannot be imported, and `UnsupportedFeatureError` for Kafka without its
    client.
    """
    send, waits = _sender(options)

    def observe(event: Event) -> None:
        if not isinstance(event, ActionCompleted) or event.metadata is None:
            return
        message = message_of(event, event.metadata, table_name)
        if waits:
            _attempt(send, message)
        else:
            _sending(os.getpid()).submit(_attempt, send, message)

    return observe


def message_of(event: ActionCompleted, metadata: CommitMetadata, table_name: str) -> dict[str, Any]:
    """The message of a commit, with the names of JVM Hudi."""
    return {
        "commitTime": event.instant,
        "tableName": table_name,
        "basePath": event.base_path,
        "hoodieWriteStat": encode_stats(metadata),
        "commitActionType": event.action.value,
        "extraMetadata": dict(metadata.extra),
    }


@lru_cache(maxsize=2)
def _sending(_process: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="pyhudi callbacks")


def _attempt(send: _Send, message: Mapping[str, Any]) -> None:
    try:
        send(message)
    except Exception as error:  # noqa: BLE001  # the commit stands, and the function is the user's
        _log.warning("a callback was not told of commit %s, which stands: %s", message["commitTime"], error)


def _sender(options: CallbackOptions) -> tuple[_Send, bool]:
    """What sends a message, and whether the writing thread waits for it, as it does for a function."""
    if options.callback == HTTP_CALLBACK:
        return lambda message: _post(options, message), False
    if options.callback == KAFKA_CALLBACK:
        try:
            import confluent_kafka  # noqa: F401, PLC0415 - an extra
        except ImportError as error:
            raise UnsupportedFeatureError(
                "a callback by Kafka needs its client: pip install 'pyhudi[kafka]'"
            ) from error
        return lambda message: _produce(options, message), False
    return imported_function(options.callback, "hoodie.write.commit.callback.class"), True


def imported_function(name: str, option: str) -> Callable[..., Any]:
    """A function of the user, named `module:function` by an option. Raises `ConfigError` where there is none."""
    module, _, attribute = name.partition(":")
    try:
        function: Callable[..., Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{option} names a function that cannot be imported here: {name}", cause=str(error)
        ) from error
    if not callable(function):
        raise ConfigError(f"{option} names something that is no function: {name}")
    return function


def _post(options: CallbackOptions, message: Mapping[str, Any]) -> None:
    headers = {"Content-Type": "application/json; charset=UTF-8", "HUDI-CALLBACK-KEY": options.api_key}
    body = json.dumps(message).encode()
    assert options.url is not None  # checked with the options
    request = urllib.request.Request(options.url, body, {**headers, **dict(options.headers)}, method="POST")  # noqa: S310
    with urllib.request.urlopen(request, timeout=options.timeout_seconds) as answer:  # noqa: S310  # by the user
        answer.read()


def _produce(options: CallbackOptions, message: Mapping[str, Any]) -> None:
    from confluent_kafka import KafkaException, Producer  # noqa: PLC0415 - an extra

    producer = Producer(
        {"bootstrap.servers": options.servers, "acks": options.acks, "retries": options.retries}
        | {"message.timeout.ms": options.timeout_seconds * 1000, "log_level": 0}
    )
    errors: list[Any] = []
    where = {} if options.partition is None else {"partition": options.partition}
    producer.produce(
        options.topic,
        key=str(message["tableName"]),
        value=json.dumps(message).encode(),
        on_delivery=lambda error, _: errors.append(error) if error else None,
        **where,
    )
    if producer.flush(options.timeout_seconds + 1) or errors:
        raise KafkaException(*errors)
