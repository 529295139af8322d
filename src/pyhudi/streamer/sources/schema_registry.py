"""Avro schemas by their ids, from a schema registry that speaks Confluent's interface."""

from __future__ import annotations

import base64
import functools
import json
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any, Final

from pyhudi.environment import SYSTEM
from pyhudi.errors import ConfigError, SourceError, UnsupportedFeatureError

_ANSWER_SECONDS: Final = 30
_BYTES_MAX: Final = 16 * 1024 * 1024
_SUBJECTS: Final = "/subjects/"
_NO_SUCH_SCHEMA: Final = b"40403"
"""The code in the answer of a registry that has no such schema. Others say that there is no such page."""


@dataclass(frozen=True, slots=True)
class SchemaRegistry:
    """A registry at an address without user and password, which are in `login`.

    `batch`: the name of the batch whose schemas are asked for.
    """

    url: str
    login: str | None = field(default=None, repr=False)
    batch: str = field(default="", repr=False)

    @classmethod
    def of(cls, url: str) -> SchemaRegistry:
        """The registry of a URL: its own, or that of a subject's version, as HoodieStreamer is given it."""
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError("the URL of a schema registry begins with http:// or https://")
        host = parts.hostname if parts.port is None else f"{parts.hostname}:{parts.port}"
        path = parts.path.partition(_SUBJECTS)[0].rstrip("/")
        login = None if parts.username is None else urllib.parse.unquote(f"{parts.username}:{parts.password or ''}")
        return cls(urllib.parse.urlunsplit((parts.scheme, host, path, "", "")), login)

    def of_a_batch(self) -> SchemaRegistry:
        """The registry, which is asked for each schema again: one that was made anew gives the same ids again."""
        return replace(self, batch=SYSTEM.ids.uuid())

    def schema(self, number: int) -> str | None:
        """The Avro schema with this id, as JSON; None where the registry has none.

        Each is asked for once for a batch in a process. Raises `SourceError` where the registry does not answer. Cost:
        one request.
        """
        try:
            return _fetched(self.batch, self.url, self.login, number)
        except _UnknownSchemaError:
            return None


class _UnknownSchemaError(Exception):
    """The registry has no schema with an id. It may have one later, so that this is no answer to keep."""


# A batch has few schemas; those of batches before it are never asked for again, and stay until they are pushed out.
@functools.lru_cache(maxsize=1_000)
def _fetched(batch: str, url: str, login: str | None, number: int) -> str:
    del batch  # by which answers are kept
    request = urllib.request.Request(f"{url}/schemas/ids/{number}")  # noqa: S310 - the scheme was checked
    if login is not None:
        request.add_header("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
    try:
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as answer:  # noqa: S310 - the scheme was checked
            found: dict[str, Any] = json.loads(answer.read(_BYTES_MAX))
    except (OSError, ValueError) as error:
        if isinstance(error, urllib.error.HTTPError):
            is_unknown = error.code == HTTPStatus.NOT_FOUND and _NO_SUCH_SCHEMA in error.read(_BYTES_MAX)
            error.close()
            if is_unknown:
                raise _UnknownSchemaError from error
        raise SourceError(f"the schema registry does not answer: {error}", registry=url, schema_id=number) from error
    if found.get("schemaType", "AVRO") != "AVRO" or found.get("references"):
        raise UnsupportedFeatureError(
            "only Avro schemas without references are read",
            registry=url,
            schema_id=number,
            type=found.get("schemaType"),
        )
    return str(found["schema"])
