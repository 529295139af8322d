"""The check that a write begins on the table that it loaded: others may have changed it, or made another at its path.

Before a write begins, its rows have keys and partition paths already, by the properties of the table as it was loaded.
Rows with those of another table would be committed, and no read would find what is wrong.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Final

from pyhudi.config.table_config import TableConfig
from pyhudi.errors import WriteConflictError
from pyhudi.table.state import TableState

_CHANGED_BESIDE_WRITES: Final = frozenset(
    {"values", "name", "database", "metadata_partitions", "metadata_partitions_inflight", "create_schema"}
)
"""What says nothing of how rows are written; columns are compared when the write commits."""
_COMPARED: Final = tuple(field.name for field in fields(TableConfig) if field.name not in _CHANGED_BESIDE_WRITES)


def check_same_table(loaded: TableState, now: TableState) -> None:
    """Raise `WriteConflictError` for a write that would make files by properties that the table no longer has."""
    changed = [name for name in _COMPARED if getattr(loaded.config, name) != getattr(now.config, name)]
    if "version" in changed:
        what = "the version of the table"
    elif "cdc_enabled" in changed or "change_data_mode" in changed:
        what = "whether and how the table captures its changes"
    elif changed:
        what = "properties of the table, or made another table at its path,"
    else:
        return
    raise WriteConflictError(
        f"another process changed {what} since this write loaded it; nothing was written; load the table and run it "
        "again",
        table_version=now.version.number,
        changed=changed,
    )
