"""Arguments of the public face: their types, and the checks of their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

from pyhudi.config.enums import QueryType
from pyhudi.config.option import text_of
from pyhudi.config.options_write import DEFAULT_METADATA_PREFIX, METADATA_PREFIX
from pyhudi.config.spelling import is_option_name, spelled, unknown_option
from pyhudi.errors import ConfigError
from pyhudi.storage.options import select_storage_options

HudiOptions: TypeAlias = Mapping[str, str | int | float | bool | None]
"""Options under Hudi's own names, such as `{"hoodie.index.type": "BLOOM"}`; `docs/reference/options.md` lists them.

Names may be written in any case; None counts as not given. Options of the store (credentials, endpoints) are among
them, and names that begin with the prefix for commit metadata (`_`, if no option says otherwise).
"""


def known_options(given: HudiOptions | None, *, call: str, defaults: Mapping[str, str] | None = None) -> dict[str, str]:
    """Options as texts, under the names that pyhudi knows them by; `ConfigError` for a name that can be none.

    All options have a dot in their names but for `path`, those of the store, and those that their prefix sends into the
    commit's metadata; `defaults` may say which prefix that is.
    """
    if given is not None and not isinstance(given, Mapping):
        raise ConfigError("hudi_options must be a mapping of option names to values", given=type(given).__name__)
    if not all(isinstance(name, str) for name in given or ()):
        raise ConfigError("names of options must be texts", given=[repr(name) for name in given or ()])
    texts = {name: text_of(value) for name, value in spelled(given or {}).items() if value is not None}
    prefix = {**(defaults or {}), **texts}.get(METADATA_PREFIX, DEFAULT_METADATA_PREFIX)
    for name in texts:
        if not is_option_name(name, metadata_prefix=prefix) and not select_storage_options({name: ""}):
            raise unknown_option(name, call=call)
    return texts


def time_text(text: Any, argument: str) -> str:
    """A time as text. An empty one is none: to take it for "not given" would answer another question."""
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(f"{argument} must be a time as text, such as '2024-01-31 10:00:00'", given=repr(text))
    return text


def moment_text(moment: Any, argument: str) -> str:
    """A time for reads as text: text, or a `datetime` with a time zone, to the millisecond."""
    if not isinstance(moment, datetime):
        return time_text(moment, argument)
    if moment.utcoffset() is None:
        raise ConfigError(
            f"{argument} has no time zone: give it one, such as {argument}.replace(tzinfo=UTC), or by"
            f" {argument}.astimezone() that of this machine",
            given=repr(moment),
        )
    return moment.astimezone(UTC).isoformat(sep=" ", timespec="milliseconds")


def query_type_of(text: Any) -> QueryType:
    """The query type that a word stands for."""
    kinds = {"snapshot": QueryType.SNAPSHOT, "read_optimized": QueryType.READ_OPTIMIZED}
    if str(text).lower() not in kinds:
        raise ConfigError('query_type must be "snapshot" or "read_optimized"', query_type=text)
    return kinds[str(text).lower()]


def table_type_of(text: Any) -> str:
    """Hudi's name of the table type that a word stands for."""
    kinds = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
    kind = kinds.get(str(text).lower(), str(text).upper())
    if kind not in kinds.values():
        raise ConfigError('table_type must be "cow" or "mor", or COPY_ON_WRITE or MERGE_ON_READ', table_type=text)
    return kind


def joined(names: str | Sequence[str] | None, argument: str) -> str | None:
    """Column names as one option says them."""
    return names if names is None or isinstance(names, str) else ",".join(texts_of(names, argument))


def texts_of(given: Any, argument: str) -> tuple[str, ...]:
    """A text, or several, as an argument gives them."""
    if isinstance(given, str):
        return (given,)
    texts = tuple(given) if isinstance(given, Iterable) and not isinstance(given, bytes) else (None,)
    if not all(isinstance(text, str) for text in texts):
        raise ConfigError(f"{argument} must be a text or several", given=repr(given))
    return texts


def count_of(number: Any, argument: str) -> int | None:
    """How many of something an argument asks for; None for all."""
    if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 0):
        raise ConfigError(f"{argument} must be a whole number from 0 on, or None for all", given=repr(number))
    return number
