"""Findings of a table's properties and options: what they name and is not there, and what contradicts itself."""

from __future__ import annotations

from collections.abc import Iterator

from pyhudi.config.enums import MergeMode
from pyhudi.config.table_config import TableConfig
from pyhudi.doctor.finding import Finding, Mend, Severity
from pyhudi.format.timeline.instant import Action, InstantState
from pyhudi.services.frame.service import ServiceCall
from pyhudi.table.index_definitions import COLUMN_STATS, PARTITION_STATS
from pyhudi.table.metadata_partitions import RECORD_INDEX, SECONDARY_INDEX_PREFIX
from pyhudi.table.schema import load_table_schema
from pyhudi.table.state import PROPERTIES_BACKUP_PATH


def settings_findings(call: ServiceCall) -> Iterator[Finding]:
    """What is wrong with the properties. Cost: two reads."""
    table = call.table
    schema = load_table_schema(table)
    config = table.config
    names = set() if schema is None else {field.name.lower() for field in schema.arrow}
    for what, columns in (
        ("record key", config.record_key_fields),
        ("order of versions", config.ordering_fields),
    ):
        for column in columns:
            if schema is not None and column.partition(".")[0].lower() not in names:
                yield Finding(
                    severity=Severity.ERROR,
                    problem="property names no column",
                    path=column,
                    detail=f"the properties make it the {what}, and the table has no such column",
                )
    yield from _contradictions(config)
    yield from _backup(call)
    building = config.values.get("hoodie.table.metadata.partitions.inflight", "").strip()
    is_indexing = any(
        instant.action is Action.INDEXING and instant.state is not InstantState.COMPLETED
        for instant in table.timeline.instants
    )
    if building and not is_indexing:
        yield Finding(
            severity=Severity.WARNING,
            problem="build of an index died",
            path=building,
            detail="the properties say that it is being built, and nothing builds it",
            command="rebuild-metadata PATH",
        )


def _backup(call: ServiceCall) -> Iterator[Finding]:
    """The copy of the properties that a change of them deletes at its end."""
    backup = call.table.storage.info(PROPERTIES_BACKUP_PATH)
    if backup is None:
        return
    is_old = call.environment.clock.now_ms() - backup.modified_ms > call.settings.heartbeat.expiry_ms
    yield Finding(
        severity=Severity.WARNING,
        problem="change of properties died",
        path=PROPERTIES_BACKUP_PATH,
        detail="a change of the properties began and did not end"
        + ("" if is_old else "; it may be at work still, so look again when its heartbeat would have expired"),
        command="doctor PATH --fix" if is_old else None,
        mend=Mend.PROPERTIES if is_old else None,
    )


def _contradictions(config: TableConfig) -> Iterator[Finding]:
    """Properties of which one makes no sense with another."""
    by_event_time = (
        config.values.get("hoodie.record.merge.mode", "").strip().upper() == MergeMode.EVENT_TIME_ORDERING.value
    )
    if by_event_time and not config.ordering_fields:
        yield Finding(
            severity=Severity.WARNING,
            problem="properties contradict each other",
            path="hoodie.record.merge.mode",
            detail="versions of a record are to be ordered by event time, and no column is the order of versions: the"
            " version that is written last wins, whatever its event time",
        )
    partitions = config.metadata_partitions
    needs = {name: RECORD_INDEX for name in partitions if name.startswith(SECONDARY_INDEX_PREFIX)}
    if PARTITION_STATS in partitions:
        needs[PARTITION_STATS] = COLUMN_STATS
    for name, needed in needs.items():
        if needed not in partitions:
            yield Finding(
                severity=Severity.WARNING,
                problem="properties contradict each other",
                path=name,
                detail=f"hoodie.table.metadata.partitions has it without {needed}, from which it is made and looked up",
                command=f"index PATH --create {needed}",
            )
