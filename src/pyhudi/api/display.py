"""Values for eyes: one line in a terminal, a small table in a notebook."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pyhudi.config.enums import TableType
from pyhudi.config.table_config import TableConfig
from pyhudi.errors import HudiError
from pyhudi.markup import facts, tag

if TYPE_CHECKING:
    from pyhudi.api.inspect import Inspect, TableDetail

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")


def counted(number: int, noun: str) -> str:
    """A number and its noun: `1 file`, `12 files`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def bytes_text(size: int) -> str:
    """A size with its unit: `17 B`, `1.5 MiB`."""
    value, power = float(size), 0
    while value >= 1024 and power < len(_UNITS) - 1:
        value, power = value / 1024, power + 1
    return f"{value:.1f} {_UNITS[power]}" if power else f"{size} B"


def table_line(config: TableConfig, detail: TableDetail | None) -> str:
    """A table in one line; without its size where that is not known."""
    parts = [repr(config.name), f"v{config.version}", "cow" if config.table_type is TableType.COPY_ON_WRITE else "mor"]
    if detail is not None:
        parts += [counted(detail.partitions, "partition"), counted(detail.base_files + detail.logs, "file")]
    return f"HudiTable({', '.join(parts)})"


def detail_if_reachable(inspect: Inspect) -> TableDetail | None:
    """The detail of a table; None where its store fails, or its files are damaged. Cost: as `Inspect.detail`."""
    with suppress(HudiError, OSError):
        return inspect.detail()
    return None


def table_page(config: TableConfig, detail: TableDetail | None) -> str:
    """A table as HTML: where it is, its type and version, its keys and its size; its line where that is not known."""
    if detail is None:
        return tag("code", table_line(config, None))
    rows: list[tuple[str, object]] = [
        (name.replace("_", " "), getattr(detail, name))
        for name in ("uri", "type", "version", "partitions", "base_files", "logs", "writes")
    ]
    fields = {
        "record key": detail.record_key_fields,
        "partitioned by": detail.partition_fields or (),
        "ordered by": detail.ordering_fields,
    }
    rows += [(name, ", ".join(columns) or "none") for name, columns in fields.items()]
    return facts(detail.name, [*rows, ("size", bytes_text(detail.bytes))])
