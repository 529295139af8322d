"""The indexes of a table: those that count, those that are being built, and definitions without an index."""

from __future__ import annotations

from typing import Any

from pyhudi.environment import Environment
from pyhudi.errors import InvalidRequestError
from pyhudi.metadata_table.index_plans import pending_plans
from pyhudi.services.indexing.names import kind_of_partition, short_name
from pyhudi.services.indexing.running import is_being_built
from pyhudi.table.index_definitions import load_index_definitions
from pyhudi.table.metadata_partitions import FILES
from pyhudi.table.metadata_table import METADATA_TABLE_FOLDER
from pyhudi.table.state import TableState
from pyhudi.transaction.heartbeat import HeartbeatSettings


def listed_indexes(table: TableState, settings: HeartbeatSettings, environment: Environment) -> list[dict[str, Any]]:
    """A row for each index: name, kind, partition, columns, state and when its build began."""
    definitions = load_index_definitions(table)
    plans = {plan.partition: plan for plan in pending_plans(table.storage)}
    ready = {name for name in table.config.metadata_partitions if name != FILES}
    rows = []
    for partition in sorted({*ready, *definitions, *plans}, key=lambda one: (short_name(one), one)):
        kind, definition, plan = kind_of_partition(partition), definitions.get(partition), plans.get(partition)
        if partition in ready:
            state, plan = "ready", None
        elif plan is not None:
            lives = is_being_built(table.storage, partition, settings, environment)
            state = "building" if lives else "interrupted"
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
