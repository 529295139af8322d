"""All options by all their spellings, and what becomes of a mapping of options that a user hands in."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from pyhudi.config.jvm_keys import UNSUPPORTED, unsupported_area
from pyhudi.config.option import Option, OptionWarning, options_of, text_of
from pyhudi.config.options_locks import LockOptions
from pyhudi.config.options_logs import CompactionOptions, LogOptions
from pyhudi.config.options_markers import MarkerOptions
from pyhudi.config.options_merging import MemoryOptions, MergingOptions
from pyhudi.config.options_read import ReadOptions
from pyhudi.config.options_write import (
    BloomOptions,
    ConcurrencyOptions,
    FileOptions,
    IndexOptions,
    InputOptions,
    KeyOptions,
    RequestOptions,
    TableOptions,
)
from pyhudi.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Section:
    """A group of options under its title, for the registry and for the reference page."""

    title: str
    group: type

    @property
    def options(self) -> Iterator[Option[Any]]:
        """The options of the group, in the order of their declaration."""
        return (declared for _, declared in options_of(self.group))


SECTIONS = (
    Section("The operation", RequestOptions),
    Section("The table", TableOptions),
    Section("Key generators", KeyOptions),
    Section("Incoming rows", InputOptions),
    Section("Index", IndexOptions),
    Section("Bloom filters", BloomOptions),
    Section("Files", FileOptions),
    Section("Mergers", MergingOptions),
    Section("Log files", LogOptions),
    Section("Compaction", CompactionOptions),
    Section("Memory", MemoryOptions),
    Section("Concurrency", ConcurrencyOptions),
    Section("Markers and early conflict detection", MarkerOptions),
    Section("The table lock", LockOptions),
    Section("Reads", ReadOptions),
)


def _by_spelling() -> Mapping[str, Option[Any]]:
    found: dict[str, Option[Any]] = {}
    for section in SECTIONS:
        for declared in section.options:
            for spelling in declared.spellings:
                if spelling in found:
                    raise AssertionError(f"the option {spelling} is declared twice")
                found[spelling] = declared
    return MappingProxyType(found)


OPTIONS: Mapping[str, Option[Any]] = _by_spelling()
"""Every honoured option by each of its spellings."""


def given_options(options: Mapping[str, Any]) -> dict[str, str]:
    """The honoured options of a mapping, as texts by their first spelling; None counts as not given.

    Warns (`OptionWarning`) of `hoodie.*` keys that have no effect. Raises `ConfigError` when two spellings of
    one option disagree.
    """
    given: dict[str, str] = {}
    spelled: dict[str, str] = {}
    for key, value in options.items():
        if value is None:
            continue
        declared = OPTIONS.get(key)
        if declared is None:
            _warn_without_effect(key, text_of(value))
            continue
        text = text_of(value)
        if given.setdefault(declared.key, text) != text:
            raise ConfigError(
                f"{spelled[declared.key]} and {key} are two names of one option and differ: give one of them",
                values=(given[declared.key], text),
            )
        spelled.setdefault(declared.key, key)
    return given


def nearest_key(key: str) -> str | None:
    """The known key that a misspelt one probably means; honoured keys come before those without effect."""
    without_effect = [name for area in UNSUPPORTED for name in area.keys if not name.endswith(".")]
    for known in (list(OPTIONS), without_effect):
        if close := difflib.get_close_matches(key, known, n=1, cutoff=0.85):
            return close[0]
    return None


def _warn_without_effect(key: str, text: str) -> None:
    if not key.startswith("hoodie."):
        return
    area = unsupported_area(key)
    if area is not None:
        if text.strip().lower() not in area.quiet:
            warnings.warn(f"{key} has no effect ({area.area}: {area.reason})", OptionWarning, stacklevel=4)
        return
    nearest = nearest_key(key)
    hint = f": did you mean {nearest}?" if nearest else ", and no key that is known looks like it"
    warnings.warn(f"{key} has no effect: this key is unknown{hint}", OptionWarning, stacklevel=4)
