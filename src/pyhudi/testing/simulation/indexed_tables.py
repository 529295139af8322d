"""Tables of simulations whose metadata table has indexes: their options, who changes the indexes, and invariant K19."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from pyhudi.api.handle import TableHandle
from pyhudi.api.hudi_table import HudiTable
from pyhudi.engine.local import LocalEngine
from pyhudi.environment import SYSTEM
from pyhudi.errors import InvalidRequestError
from pyhudi.format.timeline.instant import InstantState, parse_instant_file_name
from pyhudi.format.timeline.table_version import TableVersion
from pyhudi.metadata_table.checks.files import differences
from pyhudi.metadata_table.index_plans import pending_plans
from pyhudi.services.frame.service import ServiceCall
from pyhudi.services.indexing.create import create_index
from pyhudi.services.indexing.drop import drop_index
from pyhudi.services.metadata_table.run import maintain_metadata_table
from pyhudi.table.metadata_partitions import FILES, RECORD_INDEX, SECONDARY_INDEX_PREFIX
from pyhudi.table.state import TableState
from pyhudi.testing.simulation.full_writes import read_whole
from pyhudi.testing.simulation.scheduler import Actor
from pyhudi.testing.simulation.simulated import Watch
from pyhudi.testing.simulation.world import Stored

BY_VALUE: Final = "by_value"
"""The secondary index over the values, which tables have from the start."""
BY_PART: Final = "by_part"
"""The secondary index that is built while others write."""
_COMMON: Final = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.index.bloom.filter.file.group.count": "1",
    "hoodie.metadata.compact.max.delta.commits": "2",
}
INDEXED: Final = {
    **_COMMON,
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.index.type": "RECORD_INDEX",
}
"""The options of writes to a table with an index of all its keys."""
BY_PARTITION: Final = {
    **_COMMON,
    "hoodie.metadata.record.level.index.enable": "true",
    "hoodie.index.type": "RECORD_LEVEL_INDEX",
}
"""The same, where keys are indexed by partition."""
UNINDEXED: Final = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "2",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
}
"""The same, before the first index is asked for."""
_KEYS: Final = ("a1", "a2", "a9", "b1")

ROLES_WITH_INDEXES: Final[tuple[tuple[str, ...], ...]] = (
    ("both", "new"),
    ("both", "delete"),
    ("delete", "new"),
    ("overwrite", "both"),
    ("drop", "new"),
    ("both", "cluster"),
    ("both", "undo"),
    ("both", "restore"),
    ("both", "late"),
    ("both", "maintain"),
    ("maintain", "maintain"),
    ("undo", "maintain"),
    ("abandoned", "attempt"),
    ("both", "clean", "late"),
    ("both", "maintain", "undo"),
    ("both", "maintain", "late"),
    ("both", "index"),
    ("both", "drop-index"),
    ("index", "index"),
    ("index", "drop-index"),
    ("index", "maintain"),
    ("delete", "index", "late"),
)
"""Who acts together where a table has indexes."""
ROLES_OF_LOGS: Final[tuple[tuple[str, ...], ...]] = (
    ("both", "compact"),
    ("delete", "compact"),
    ("index", "compact"),
    ("both", "compact", "late"),
    ("both", "compact", "undo"),
)
"""The same, where a table has logs."""
ROLES_BESIDE_A_BUILD: Final[tuple[tuple[str, ...], ...]] = (
    ("both", "records"),
    ("delete", "records"),
    ("both", "new", "records"),
    ("overwrite", "records"),
    ("both", "undo", "records"),
    ("both", "restore", "records"),
    ("both", "cluster", "records"),
    ("both", "records", "late"),
    ("records", "records"),
    ("records", "maintain"),
)
ROLES_BESIDE_A_BUILD_BY_PARTITION: Final[tuple[tuple[str, ...], ...]] = (
    ("both", "parts"),
    ("both", "new", "parts"),
    ("drop", "parts"),
    ("both", "undo", "parts"),
    ("delete", "parts", "late"),
    ("parts", "parts"),
)
"""Who acts while the first index of record keys is built."""


class Indexes(enum.Enum):
    """What the metadata table of a table has; the value is its word in names of kinds."""

    ALL = "keyed"
    BY_PARTITION = "parted"
    NONE_YET = "unkeyed"

    @property
    def options(self) -> Mapping[str, str]:
        """The options of writes."""
        return {Indexes.ALL: INDEXED, Indexes.BY_PARTITION: BY_PARTITION, Indexes.NONE_YET: UNINDEXED}[self]

    def roles(self, version: TableVersion, *, is_merge_on_read: bool) -> tuple[tuple[str, ...], ...]:
        """Who acts together on such a table."""
        if self is Indexes.NONE_YET:
            by_partition = ROLES_BESIDE_A_BUILD_BY_PARTITION if version.has_completion_times else ()
            return (*ROLES_BESIDE_A_BUILD, *by_partition)
        found = (*ROLES_WITH_INDEXES, *(ROLES_OF_LOGS if is_merge_on_read else ()))
        if self is Indexes.BY_PARTITION or not version.has_secondary_indexes:
            return tuple(roles for roles in found if not {*roles} & {"index", "drop-index"})
        return found


def build_records(call: ServiceCall) -> None:
    """Build the index of record keys; that it is there is an answer."""
    _answered(lambda: create_index(call, RECORD_INDEX, None, ()))


def build_records_by_partition(call: ServiceCall) -> None:
    """The same, by partition."""
    record_index = replace(call.config.record_index, enabled=False, by_partition=True)
    build_records(replace(call, config=replace(call.config, record_index=record_index)))


def build_by_part(call: ServiceCall) -> None:
    """Build another secondary index; that it is there, or a restore dropped what it needs, is an answer."""
    _answered(lambda: create_index(call, BY_PART, "secondary", ("part",)))


def drop_by_value(call: ServiceCall) -> None:
    """Drop the secondary index of the start; that it is not there is an answer."""
    _answered(lambda: drop_index(call, SECONDARY_INDEX_PREFIX + BY_VALUE))


def finish_builds(call: ServiceCall) -> None:
    """Go on with builds that died."""
    for plan in pending_plans(call.table.storage):
        (build_records if plan.partition == RECORD_INDEX else build_by_part)(call)


def maintain(call: ServiceCall) -> None:
    """Compact, clean and archive the metadata table."""
    maintain_metadata_table(call)


def build_at_start(call: ServiceCall) -> None:
    """Build the secondary index that tables have from the start."""
    create_index(call, BY_VALUE, "secondary", ("value",))


def _answered(ask: Callable[[], object]) -> None:
    try:
        ask()
    except InvalidRequestError as error:
        if "has this index" not in error.message and "no such index" not in error.message:
            raise


@dataclass(frozen=True, slots=True)
class IndexWatcher:
    """Compares the indexes of a table with its rows whenever an action is completed or undone; see `simulated.Watch`.

    `first`: who else looks at each change. `fail`: told of a violation. `table`: read by an observer.
    """

    first: Watch
    fail: Callable[[str], None]
    table: TableState

    def __call__(self, actor: Actor, operation: str, path: str, previous: Stored | None) -> None:
        """Look at one change."""
        self.first(actor, operation, path, previous)
        folder, _, name = path.rpartition("/")
        version = self.table.version
        instant = parse_instant_file_name(name, version) if folder == version.timeline_folder else None
        if instant is not None and instant.state is InstantState.COMPLETED:
            for found in check_indexes(self.table.reload()):
                self.fail(found)


def check_indexes(table: TableState) -> Iterator[str]:
    """K19: indexes and statistics say what the rows and files say, and reads that ask them find the same rows."""
    if FILES not in table.config.metadata_partitions:
        return
    for difference in differences(table).to_pylist():
        yield f"K19: {difference['problem']}: {difference['path'] or ''} {difference['detail'] or ''}"
    rows = read_whole(table, None)
    asked = HudiTable(TableHandle(table, {}, LocalEngine(parallelism=1), SYSTEM))
    for value in sorted({value for _, value in rows}):
        found = asked.scan(["key", "value"], where=[("value", "==", value)]).to_arrow()
        pairs = sorted(zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True))
        if pairs != (wanted := [row for row in rows if row[1] == value]):
            yield f"K19: a scan for the value {value} finds {pairs}, and must find {wanted}"
    keys = sorted({*_KEYS, *(key for key, _ in rows)})
    found = asked.scan(["key", "value"], where=[("key", "in", keys)]).to_arrow()
    pairs = sorted(zip(found["key"].to_pylist(), found["value"].to_pylist(), strict=True))
    if pairs != rows:
        yield f"K19: a lookup of all keys finds {pairs}, and must find {rows}"
