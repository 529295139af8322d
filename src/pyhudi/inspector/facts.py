"""Facts of a table that the inspector shows: read once, and made small before they are drawn.

Nothing here grows with the number of commits or files but a few numbers for each; what is drawn is bounded.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from pyhudi.api.explanation import ScanExplanation
from pyhudi.api.hudi_table import HudiTable
from pyhudi.api.inspect import TableDetail
from pyhudi.api.sizes import amplification_table
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import HudiError
from pyhudi.format.metadata.commit import WRITER_KEY, CommitMetadata
from pyhudi.format.timeline.instant import Action, Instant, InstantState, parse_instant_time
from pyhudi.read.conditions import Where
from pyhudi.storage.bounded import at_once
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.instant_times import table_zone
from pyhudi.table.schema import TableSchema

WRITES_READ: Final = 200
"""So many of the newest writes are read."""
GROUPS_DRAWN: Final = 40
PARTITIONS_LISTED: Final = 200
_CHANGES_OF_SCHEMA: Final = 50


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant on a lane: from when to when, in milliseconds since the epoch."""

    instant: str
    action: str
    state: str
    begin_ms: int
    end_ms: int | None


@dataclass(frozen=True, slots=True)
class Write:
    """One of the newest writes, compactions and clusterings, and what it cost."""

    instant: str
    begin_ms: int
    operation: str
    writer: str
    inserted: int
    updated: int
    deleted: int
    bytes_written: int
    bytes_changed: int


@dataclass(frozen=True, slots=True)
class GroupEvent:
    """What a write did to a file group: `kind` is "base file", "log" or "replaced"."""

    kind: str
    instant: str
    begin_ms: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition: its files, and when it was last written."""

    path: str
    file_groups: int
    small_files: int
    base_bytes: int
    log_bytes: int
    newest: str


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """How the columns differ from those before a write."""

    instant: str
    added: tuple[str, ...]
    dropped: tuple[str, ...]
    changed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ServiceState:
    """A table service: the newest instant of it, whether it is due, and why."""

    service: str
    last: str | None
    is_due: bool
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """All that a page shows. `pruning`: of the condition that the page was asked for; its error as text."""

    detail: TableDetail
    moments: tuple[Moment, ...]
    writes: tuple[Write, ...]
    groups: Mapping[tuple[str, str], tuple[GroupEvent, ...]]
    groups_of: int
    partitions: tuple[Partition, ...]
    partitions_of: int
    schema: tuple[tuple[str, str], ...]
    schema_changes: tuple[SchemaChange, ...]
    services: tuple[ServiceState, ...]
    indexes: tuple[Mapping[str, Any], ...]
    metadata_partitions: tuple[str, ...]
    pruning: ScanExplanation | str | None


def _no_condition(text: str) -> Where:
    return text


def collect(table: HudiTable, where: str = "", condition_of: Callable[[str], Where] = _no_condition) -> TableFacts:
    """Look at a table. `condition_of`: the condition that the text `where` stands for; it may raise.

    Cost: two listings of each partition, and a read for each of the newest 200 writes.
    """
    state = table.handle.state
    zone = table_zone(state.config)

    def ms(time: str) -> int:
        return parse_instant_time(time, zone) or 0

    read = _newest_writes(table)
    files = table.inspect.files()
    limit = WriteConfig.from_options(table.handle.options).files.small_file_limit
    partitions = _partitions(files, limit)
    groups = _lives(read, ms)
    return TableFacts(
        detail=table.inspect.detail(),
        moments=tuple(_moment(instant, ms) for instant in state.timeline.instants),
        writes=tuple(_writes(read, ms)),
        groups=dict(sorted(groups.items(), key=lambda one: -len(one[1]))[:GROUPS_DRAWN]),
        groups_of=len(groups),
        partitions=tuple(partitions[:PARTITIONS_LISTED]),
        partitions_of=len(partitions),
        schema=tuple((field.name, str(field.type)) for field in table.schema if not field.name.startswith("_hoodie_")),
        schema_changes=tuple(_schema_changes(read)),
        services=tuple(_services(table)),
        indexes=tuple(table.indexes.list().to_pylist()),
        metadata_partitions=state.config.metadata_partitions,
        pruning=_pruning(table, where, condition_of),
    )


def _newest_writes(table: HudiTable) -> list[tuple[Instant, CommitMetadata]]:
    state = table.handle.state
    instants = state.timeline.completed_writes[-WRITES_READ:]
    bodies = at_once(state.storage, lambda one: load_commit_metadata(state.storage, one, state.version), instants)
    return list(zip(instants, bodies, strict=True))


def _moment(instant: Instant, ms: Any) -> Moment:
    end = ms(instant.completion_time) if instant.completion_time else None
    return Moment(
        instant.requested_time, instant.action.value, instant.state.name.lower(), ms(instant.requested_time), end
    )


def _writes(read: Sequence[tuple[Instant, CommitMetadata]], ms: Any) -> list[Write]:
    costs = amplification_table(read).to_pylist()
    found = []
    for (instant, metadata), cost in zip(read, costs, strict=True):
        stats = [stat for group in metadata.stats_by_partition.values() for stat in group]
        found.append(
            Write(
                instant=instant.requested_time,
                begin_ms=ms(instant.requested_time),
                operation=metadata.operation.value,
                writer=metadata.extra.get(WRITER_KEY, ""),
                inserted=sum(stat.num_inserts or 0 for stat in stats),
                updated=sum(stat.num_update_writes or 0 for stat in stats),
                deleted=sum(stat.num_deletes or 0 for stat in stats),
                bytes_written=cost["bytes_written"],
                bytes_changed=cost["bytes_changed"],
            )
        )
    return found


def _lives(read: Sequence[tuple[Instant, CommitMetadata]], ms: Any) -> dict[tuple[str, str], tuple[GroupEvent, ...]]:
    events: dict[tuple[str, str], list[GroupEvent]] = defaultdict(list)
    for instant, metadata in read:
        time = instant.requested_time
        for path, stats in metadata.stats_by_partition.items():
            for stat in stats:
                kind = "base file" if stat.log_version is None else "log"
                events[path, stat.file_id].append(GroupEvent(kind, time, ms(time), stat.total_write_bytes))
        for path, replaced in (metadata.replaced_file_ids or {}).items():
            for file_id in replaced:
                events[path, file_id].append(GroupEvent("replaced", time, ms(time), 0))
    return {group: tuple(life) for group, life in events.items()}


def _partitions(files: pa.Table, small: int) -> list[Partition]:
    groups: Counter[str] = Counter()
    smalls: Counter[str] = Counter()
    base: Counter[str] = Counter()
    logs: Counter[str] = Counter()
    newest: dict[str, str] = {}
    columns = (files[name].to_pylist() for name in ("partition_path", "size", "log_size", "instant"))
    for path, size, log_size, instant in zip(*columns, strict=True):
        groups[path] += 1
        smalls[path] += size is not None and size < small
        base[path] += size or 0
        logs[path] += log_size
        newest[path] = max(newest.get(path, ""), instant)
    found = [Partition(path, groups[path], smalls[path], base[path], logs[path], newest[path]) for path in groups]
    return sorted(found, key=lambda one: (-(one.base_bytes + one.log_bytes), one.path))


def _schema_changes(read: Sequence[tuple[Instant, CommitMetadata]]) -> list[SchemaChange]:
    changes, former, former_text = [], None, None
    for instant, metadata in read:
        text = metadata.schema
        if text is None or text == former_text:
            continue
        columns = {
            field.name: str(field.type) for field in TableSchema.from_avro(text, source=instant.requested_time).arrow
        }
        if former is not None:
            change = SchemaChange(
                instant.requested_time,
                tuple(f"{name} {kind}" for name, kind in columns.items() if name not in former),
                tuple(f"{name} {kind}" for name, kind in former.items() if name not in columns),
                tuple(
                    f"{name} {former[name]} \N{RIGHTWARDS ARROW} {kind}"
                    for name, kind in columns.items()
                    if former.get(name, kind) != kind
                ),
            )
            if change.added or change.dropped or change.changed:
                changes.append(change)
        former, former_text = columns, text
    return changes[-_CHANGES_OF_SCHEMA:]


_ACTIONS: Final = {
    "rollback": {Action.ROLLBACK, Action.RESTORE},
    "compaction": {Action.COMMIT},
    "log_compaction": {Action.LOG_COMPACTION},
    "clustering": {Action.CLUSTERING, Action.REPLACE_COMMIT},
    "clean": {Action.CLEAN},
}
"""By which completed instants a service is known. A commit of a merge-on-read table is a compaction."""


def _services(table: HudiTable) -> list[ServiceState]:
    state = table.handle.state
    newest: dict[Action, str] = {}
    for instant in state.timeline.instants:
        if instant.state is InstantState.COMPLETED:
            newest[instant.action] = instant.requested_time
    is_mor = table.handle.state.config.table_type.value == "MERGE_ON_READ"
    found = []
    for row in table.services.due().to_pylist():
        actions = _ACTIONS.get(row["service"], set()) if is_mor or row["service"] != "compaction" else set()
        last = max((newest[action] for action in actions if action in newest), default=None)
        found.append(ServiceState(row["service"], last, row["due"], row["reason"]))
    return found


def _pruning(table: HudiTable, where: str, condition_of: Callable[[str], Where]) -> ScanExplanation | str | None:
    if not where:
        return None
    try:
        return table.scan(where=condition_of(where)).explain()
    except HudiError as error:
        return str(error)
