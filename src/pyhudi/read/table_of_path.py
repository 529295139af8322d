"""The table of a read path: the folder itself, or the table that the folder is a partition of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pyhudi.config.read_config import ReadConfig
from pyhudi.errors import TableNotFoundError, UnsafePathError, UnsupportedFeatureError
from pyhudi.format.metadata.partition import PARTITION_METADATA_FILE
from pyhudi.read.cdc.plan import ChangePlan
from pyhudi.read.cdc.planning import plan_changes
from pyhudi.read.plain_partitions import plan_with_plain_partitions
from pyhudi.read.scan import ScanPlan
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table, table_exists

_OF_GLOBS = frozenset("*?[{")


def plan_of_path(path: str, options: Mapping[str, str], config: ReadConfig) -> tuple[Storage, ScanPlan]:
    """The table's store, and the read of all of it or, where the path is below it, of the partitions in that folder.

    Cost: that of a scan; for a path below the table also one or two requests per folder above it.

    Raises:
        TableNotFoundError: neither the folder nor one above it is a table, or the table has no such partition.
        UnsupportedFeatureError: the path has characters of a glob.
    """
    storage = open_storage(path, options)
    if table_exists(storage):
        return storage, plan_with_plain_partitions(load_table(storage), config)
    if set(path) & _OF_GLOBS:
        raise UnsupportedFeatureError(
            "globs are not supported, as in JVM Hudi since 1.2.0: load the folder of the table, or of one partition, "
            "and choose rows by a condition on the partition columns, which reads no other folders",
            path=path,
        )
    for above, folder in _folders_above(storage):
        table = open_storage(above, options)
        if table_exists(table):
            return table, _partitions_below(table, folder, plan_with_plain_partitions(load_table(table), config))
    raise TableNotFoundError("there is no Hudi table in this folder; check the path", path=storage.uri)


def changes_of_path(path: str, options: Mapping[str, str], config: ReadConfig) -> tuple[Storage, ChangePlan]:
    """The table's store, and the read of its change data. A folder below a table is refused.

    Raises:
        TableNotFoundError: the folder is not a table.
        HudiError: as `plan_changes`.
    """
    storage = open_storage(path, options)
    if not table_exists(storage):
        raise TableNotFoundError("there is no Hudi table in this folder; check the path", path=storage.uri)
    return storage, plan_changes(load_table(storage), config)


def _folders_above(storage: Storage) -> Iterator[tuple[str, str]]:
    """Each folder above the root of a store, as a URI, nearest first, and the path from there to the root."""
    scheme, colon, rest = storage.uri.partition("://")
    # Without an authority: `file:/folder`.
    authority, _, folder = rest.partition("/") if colon else ("", "", storage.uri.partition(":")[2].lstrip("/"))
    begin = f"{scheme}://{authority}" if colon else "file:"
    parts = [part for part in folder.split("/") if part]
    for count in range(len(parts) - 1, -1, -1):
        yield f"{begin}/{'/'.join(parts[:count])}", "/".join(parts[count:])


def _partitions_below(table: Storage, folder: str, plan: ScanPlan) -> ScanPlan:
    slices = tuple(scan_slice for scan_slice in plan.slices if f"{scan_slice.partition_path}/".startswith(f"{folder}/"))
    if not slices and not _is_partition(table, folder):
        raise TableNotFoundError("the table has no partition of this path", path=table.uri, partition=folder)
    return replace(plan, slices=slices)


def _is_partition(table: Storage, folder: str) -> bool:
    """Whether a folder without rows is a partition. Cost: one request."""
    try:
        return table.info(f"{folder}/{PARTITION_METADATA_FILE}") is not None
    except UnsafePathError:
        return False
