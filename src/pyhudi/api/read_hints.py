"""Hints of an explanation: what makes this read slow, and the command of `pyhudi` that makes it faster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

_LOGS_PER_SLICE: Final = 3
_ROW_GROUPS: Final = 20
_LEFT: Final = 0.9
_FILES: Final = 50
_SMALL_BYTES: Final = 16 * 1024 * 1024


def read_hints(
    uri: str,
    *,
    base_files: int,
    logs: int,
    merged: int,
    size: int,
    partitions: int,
    row_groups: int,
    row_groups_of: int,
    asked_columns: Sequence[str],
) -> Iterator[str]:
    """Sentences that end with a command. `asked_columns`: those of the condition that are no partition columns.

    `row_groups`: those that statistics leave, of all that the files without logs have; 0 of 0 for a scan of all rows.
    """
    if merged and logs >= _LOGS_PER_SLICE * merged:
        yield (
            f"{logs / merged:.0f} logs are merged into each file slice; compaction makes base files of them:"
            f" pyhudi compact {uri}"
        )
    if asked_columns and row_groups_of >= _ROW_GROUPS and row_groups >= _LEFT * row_groups_of:
        yield (
            "nearly every row group may have such rows, as the rows are not sorted by these columns; clustering sorts"
            f" them: pyhudi cluster {uri} --option"
            f" hoodie.clustering.plan.strategy.sort.columns={','.join(asked_columns)}"
        )
    if base_files >= _FILES and base_files >= 2 * partitions and size < base_files * _SMALL_BYTES:
        yield (
            f"{base_files:,} base files are opened for few bytes each; clustering puts small ones together:"
            f" pyhudi cluster {uri}"
        )
