"""Say how the files of a table are cut, and what its writes cost.

Small files, logs beside base files, skew of partitions; write amplification: bytes written over bytes changed, of each
of the newest writes and of all of them together, services included.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from pyhudi.commands.arguments import add_json, add_limit, add_table, names_of, opened
from pyhudi.commands.output import Output

_SIZES = (
    "base_bytes", "log_bytes", "small_file_limit", "smallest", "median", "largest", "bytes_changed", "bytes_written",
    "bytes",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_table(parser)
    add_limit(parser, 20, "writes to look at")
    parser.add_argument(
        "--columns", type=names_of, metavar="NAMES", help="instead, what footers say of these columns: bounds, nulls"
    )
    add_json(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Write the sizes, the sums over the writes, and a row per write."""
    inspect = opened(chosen).inspect
    if chosen.columns is not None:
        output.rows(inspect.stats(chosen.columns), sizes=_SIZES, none="no base files")
        return 0
    writes = inspect.write_amplification(chosen.limit).to_pylist()
    sums: dict[str, Any] = {
        name: sum(write[name] for write in writes)
        for name in ("rows_changed", "rows_written", "bytes_changed", "bytes_written")
    }
    changed = sums["bytes_changed"]
    sums["write_amplification"] = round(sums["bytes_written"] / changed, 2) if changed else None
    sizes = {**asdict(inspect.sizes()), "writes": len(writes), **sums}
    if output.as_json:
        output.document({**sizes, "of_writes": writes})
        return 0
    output.record(sizes, sizes=_SIZES)
    output.line("")
    output.records(writes, sizes=_SIZES, none="no writes yet")
    return 0
