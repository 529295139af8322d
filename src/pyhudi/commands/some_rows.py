"""Rows of a scan, as many as are asked for."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from pyhudi.commands.arguments import names_of
from pyhudi.commands.conditions import conditions_of
from pyhudi.commands.output import Output

if TYPE_CHECKING:
    import pyarrow as pa

    from pyhudi import HudiTable, Scan

META_PREFIX = "_hoodie_"
COMMIT_TIME = "_hoodie_commit_time"


def scan_of_arguments(chosen: argparse.Namespace, table: HudiTable) -> Scan:
    """The scan that `--columns`, `--where` and `--as-of` describe; without `--columns` no meta columns."""
    where = conditions_of(chosen.where, table.schema)
    if chosen.columns is not None:
        return table.scan(names_of(chosen.columns), where, as_of=chosen.as_of)
    whole = table.scan(None, where, as_of=chosen.as_of)
    return table.scan(without_meta_columns(whole.columns), where, as_of=chosen.as_of)


def without_meta_columns(names: tuple[str, ...]) -> list[str]:
    """The names that are not Hudi's own."""
    return [name for name in names if not name.startswith(META_PREFIX)]


def first_rows(scan: Scan, limit: int) -> pa.Table:
    """So many rows of a scan; files behind them are not read."""
    import pyarrow as pa  # noqa: PLC0415 - help does without

    batches, missing = [], limit
    for batch in scan.to_batches():
        batches.append(batch.slice(0, missing))
        missing -= batches[-1].num_rows
        if missing <= 0:
            break
    return pa.Table.from_batches(batches, scan.schema)


def write_rows(rows: pa.Table, limit: int, output: Output) -> None:
    """Write so many rows, and note on the standard error that there are more."""
    output.rows(rows.slice(0, limit), none="no rows")
    if rows.num_rows > limit:
        output.note(f"the first {limit:,} rows; --limit N gives more")
