"""Spelling of option names: names in any case, and the error for unknown options."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Mapping
from typing import Any

from pyhudi.config.option import text_of
from pyhudi.config.registry import OPTIONS
from pyhudi.errors import ConfigError


def spelled(options: Mapping[str, Any]) -> dict[str, Any]:
    """Rename options to their known names. Like Spark's, option names may be written in any case.

    Unknown names stay unchanged: some of them are stored in the commit metadata.

    Raises:
        ConfigError: an option is given in two spellings with two values.
    """
    found: dict[str, Any] = {}
    for name, value in options.items():
        lower = name.lower()
        known = lower if lower in OPTIONS else name
        if known in found and value is not None and text_of(found[known]) != text_of(value):
            raise ConfigError(f"{known} is given twice, in two spellings and with two values: give it once")
        if value is not None or known not in found:
            found[known] = value
    return found


def is_option_name(name: str, *, metadata_prefix: str) -> bool:
    """Whether a name can be that of an option. Options of the store have other names and are not checked."""
    return "." in name or name.lower() in OPTIONS or name.startswith(metadata_prefix)


def unknown_option(name: str, *, call: str) -> ConfigError:
    """The error for an option without a dot in its name, given to a call.

    Ignoring the name would be dangerous: with `{"dry_run": True}` a call without dry run would delete.
    """
    nearest = nearest_option(name)
    hint = f"did you mean {nearest}?" if nearest else "leave it out."
    return ConfigError(
        f"{call} has no option {name!r}: {hint} Options have Hudi's names, as in {{'hoodie.index.type': 'BLOOM'}}",
        option=name,
    )


def nearest_option(name: str) -> str | None:
    """The option whose key is most similar to a Python name such as `record_key` or `retries`."""
    close = difflib.get_close_matches(_plain(name), _parts_of_keys(), n=1, cutoff=0.85)
    return _parts_of_keys()[close[0]] if close else None


@functools.cache
def _parts_of_keys() -> Mapping[str, str]:
    """Maps every sequence of segments of a key, without dots, to the key; the first key wins."""
    parts: dict[str, str] = {}
    for key in OPTIONS:
        if "." not in key:
            continue
        segments = key.split(".")[1:]
        for begin in range(len(segments)):
            for end in range(begin + 1, len(segments) + 1):
                parts.setdefault(_plain("".join(segments[begin:end])), key)
    return parts


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace(".", "")
