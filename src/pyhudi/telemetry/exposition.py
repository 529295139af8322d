"""Values of metrics as text: for Prometheus, Graphite and people."""

from __future__ import annotations

import re
from collections.abc import Mapping

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9:_]")
_NOT_IN_PATHS = re.compile(r"[^\w.:-]", re.ASCII)
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


def prometheus_text(values: Mapping[str, float], labels: Mapping[str, str]) -> str:
    """Prometheus' text format. Dots of names become underscores, as in JVM Hudi.

    Of two metrics whose names are the same then, the first is there.
    """
    inside = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in labels.items())
    braces = f"{{{inside}}}" if inside else ""
    lines: dict[str, str] = {}
    for name, value in values.items():
        lines.setdefault(prometheus_name(name), _number(value))
    return "".join(f"# TYPE {name} gauge\n{name}{braces} {value}\n" for name, value in lines.items())


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
