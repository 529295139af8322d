"""The indexes that a table has, and what they are called. What builds them is not loaded for it."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Final

from pyhudi.errors import InvalidRequestError
from pyhudi.metadata_table.index_plans import pending_plans
from pyhudi.table.index_definitions import load_index_definitions
from pyhudi.table.metadata_partitions import FILES
from pyhudi.table.metadata_table import METADATA_TABLE_FOLDER
from pyhudi.table.state import TableState


class IndexKind(enum.Enum):
    """What an index is good for; the value is what a user writes."""

    RECORD = "record"
    COLUMN_STATS = "column_stats"
    PARTITION_STATS = "partition_stats"
    BLOOM = "bloom"
    SECONDARY = "secondary"
    EXPRESSION = "expression"


ONE_OF_A_TABLE: Final = {
    IndexKind.RECORD: "record_index",
    IndexKind.COLUMN_STATS: "column_stats",
    IndexKind.PARTITION_STATS: "partition_stats",
    IndexKind.BLOOM: "bloom_filters",
}
"""The partitions of indexes of which a table has at most one: their names are given."""
PREFIXES: Final = {IndexKind.SECONDARY: "secondary_index_", IndexKind.EXPRESSION: "expr_index_"}
"""What the partitions of indexes begin with of which a table has any number."""


def kind_of_partition(partition: str) -> IndexKind | None:
    """The kind of index that a partition of the metadata table is; None for `files` and unknown ones."""
    for kind, name in ONE_OF_A_TABLE.items():
        if partition == name:
            return kind
    return next((kind for kind, prefix in PREFIXES.items() if partition.startswith(prefix)), None)


def short_name(partition: str) -> str:
    """What a user calls the index with this partition."""
    prefix = next((prefix for prefix in PREFIXES.values() if partition.startswith(prefix)), "")
    return partition.removeprefix(prefix)


def listed_indexes(table: TableState, is_being_built: Callable[[str], bool]) -> list[dict[str, Any]]:
    """A row for each index: name, kind, partition, columns, state and when its build began.

    `is_being_built`: whether a process that lives builds the index of a partition; asked of those with a plan alone.
    """
    definitions = load_index_definitions(table)
    plans = {plan.partition: plan for plan in pending_plans(table.storage)}
    ready = {name for name in table.config.metadata_partitions if name != FILES}
    rows = []
    for partition in sorted({*ready, *definitions, *plans}, key=lambda name: (short_name(name), name)):
        kind, definition, plan = kind_of_partition(partition), definitions.get(partition), plans.get(partition)
        if partition in ready:
            state, plan = "ready", None
        elif plan is not None:
            state = "building" if is_being_built(partition) else "interrupted"
        else:
            state = "defined"
        rows.append(
            {
                "name": short_name(partition),
                "kind": None if kind is None else kind.value,
                "partition": partition,
                "columns": None if definition is None else list(definition.source_columns),
                "state": state,
                "begun": None if plan is None else plan.begun,
            }
        )
    return rows


def partition_of_listed(table: TableState, name: str) -> str:
    """The partition of an index by the name that the list shows, or by that of the partition, which may be left over.

    Raises `InvalidRequestError` where there is none, or several.
    """
    plans = {plan.partition for plan in pending_plans(table.storage)}
    folders = {folder.rpartition("/")[2] for folder in table.storage.list_folder(METADATA_TABLE_FOLDER).folders}
    left_over = {folder for folder in folders if kind_of_partition(folder) is not None}
    known = sorted({*table.config.metadata_partitions, *load_index_definitions(table), *plans, *left_over})
    if name in known:
        return name
    found = [partition for partition in known if short_name(partition) == name]
    if len(found) != 1:
        raise InvalidRequestError(
            "the table has several indexes with this name: name the partition"
            if found
            else "the table has no index with this name",
            name=name,
            indexes=found or [short_name(partition) for partition in known if partition != FILES],
        )
    return found[0]
