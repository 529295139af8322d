"""The diagnosis of a table, and mending what it found."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from pyhudi.config.enums import QueryType
from pyhudi.config.read_config import ReadConfig
from pyhudi.doctor.files import file_findings, folder_findings, readable_view, source_findings
from pyhudi.doctor.finding import Finding, Mend, Severity, evenly, restore_before
from pyhudi.doctor.instants import instant_findings
from pyhudi.doctor.rows import repeated_keys, row_findings
from pyhudi.doctor.settings import settings_findings
from pyhudi.doctor.slowness import slowness_findings
from pyhudi.doctor.timeline import timeline_findings
from pyhudi.errors import CorruptDataError, DamagedFileWarning, HudiError, MetadataTableWarning, NotFoundError
from pyhudi.format.file_names import LogFileName, parse_data_file
from pyhudi.format.schema.meta_columns import PARTITION_PATH, RECORD_KEY
from pyhudi.metadata_table.checks.files import differences
from pyhudi.read.arrow import read_batches
from pyhudi.read.scan import ScanPlan, ScanSlice, plan_table_scan
from pyhudi.services.cleaning.execute import planned_clean
from pyhudi.services.frame.runner import due_services, run_due
from pyhudi.services.frame.service import ServiceCall
from pyhudi.services.metadata_table.rebuild import rebuild_metadata_table
from pyhudi.services.repair.metadata_files import (
    add_partition_metafiles,
    delete_markers,
    finish_change_of_properties,
    remove_corrupt_clean_plans,
)
from pyhudi.services.restore.execute import recover
from pyhudi.services.rollback.orphans import remove_orphans
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import TableState

_NOT_USED = frozenset({"not valid", "unreadable"})
"""Differences of a metadata table that readers do without: they list the store instead."""


def diagnose(call: ServiceCall, files: int) -> list[Finding]:
    """What is wrong with a table as it is now; at most so many `files` are opened. Cost: see `Inspect.findings`."""
    with warnings.catch_warnings():
        for kind in (DamagedFileWarning, MetadataTableWarning):  # a finding says it
            warnings.simplefilter("ignore", kind)
        return _diagnose(call.reloaded(), files)


def _diagnose(call: ServiceCall, files: int) -> list[Finding]:
    found: list[Finding] = []
    try:
        for part in _parts(call, files, found):
            found += part
    except (CorruptDataError, NotFoundError) as error:
        if not any(finding.severity is Severity.ERROR for finding in found):
            found.append(_unreadable(call.table, "table cannot be read", error))
    return found


def _parts(call: ServiceCall, files: int, found: Sequence[Finding]) -> Iterator[Iterable[Finding]]:
    """The findings, part by part; what was `found` before decides whether rows and contents are read."""
    yield instant_findings(call)
    yield timeline_findings(call)
    yield settings_findings(call)
    view = readable_view(call.table)
    slices = [file_slice for group in view.latest.values() for file_slice in group]
    sampled = evenly(slices, files)
    yield file_findings(call, view)
    yield folder_findings(call.table, view, limit=files)
    yield source_findings(call.table, sampled)
    yield row_findings(call.table, sampled)
    is_damaged = any(finding.problem.startswith("file ") and finding.severity is Severity.ERROR for finding in found)
    if call.table.config.record_key_fields and not is_damaged:
        yield _repeated_keys(call, files)
    yield _metadata_table(call, with_contents=len(slices) <= files and not is_damaged)
    yield slowness_findings(call, view)
    yield _services(call)


def _repeated_keys(call: ServiceCall, files: int) -> Iterator[Finding]:
    """Keys with several rows, in the first partitions, as far as so many file slices go."""
    request = replace(ReadConfig.from_options({}), query_type=QueryType.SNAPSHOT)
    try:
        plan = plan_table_scan(call.table, request, call.mergers)
        if {RECORD_KEY, PARTITION_PATH} <= {*plan.schema.names}:
            slices = sorted(plan.slices, key=lambda file_slice: file_slice.partition_path)[:files]
            yield from repeated_keys(_keys_of(call.table.storage, plan, slices))
    except CorruptDataError as error:
        yield _unreadable(call.table, "file cannot be read", error)


def _keys_of(storage: Storage, plan: ScanPlan, slices: Sequence[ScanSlice]) -> Iterator[pa.RecordBatch]:
    """Keys and paths of file slices. All columns of those with logs are read: no other finding looks into logs."""
    names = (RECORD_KEY, PARTITION_PATH)
    for columns, chosen in (
        (names, [file_slice for file_slice in slices if not file_slice.files.logs]),
        (plan.schema.names, [file_slice for file_slice in slices if file_slice.files.logs]),
    ):
        for batch in read_batches(storage, replace(plan, slices=tuple(chosen)), columns, None):
            yield batch.select(names)


def _metadata_table(call: ServiceCall, *, with_contents: bool) -> Iterator[Finding]:
    """Where the metadata table differs from the store; statistics and indexes only `with_contents`."""
    for row in differences(call.table, with_contents=with_contents).to_pylist():
        sizes = f"{row['stored_bytes']} bytes in the store, {row['listed_bytes']} in the list"
        yield Finding(
            severity=Severity.WARNING if row["problem"] in _NOT_USED else Severity.ERROR,
            problem=f"metadata table: {row['problem']}",
            path=row["path"] or "",
            detail=row["detail"] or (sizes if row["stored_bytes"] or row["listed_bytes"] else row["problem"]),
            command="rebuild-metadata PATH",
            mend=Mend.METADATA_TABLE,
        )


def _services(call: ServiceCall) -> Iterator[Finding]:
    """Services that are due. Dead writers have findings of their own."""
    for name, due in due_services(call):
        is_due, reason = due.is_due, due.reason
        if name == "clean":  # due after every write, but seldom with something to delete
            deleted = sum(decision.deletes for decision in planned_clean(call).decisions)
            is_due, reason = deleted > 0, f"{deleted:,} file slices are needed no more"
        if is_due and name != "rollback":
            yield Finding(
                severity=Severity.NOTE,
                problem=f"{name} is due",
                detail=reason,
                command="services PATH",
                mend=Mend.SERVICES,
            )


def _unreadable(table: TableState, problem: str, error: HudiError) -> Finding:
    path = str(error.context.get("path") or "")
    name = parse_data_file(path.rpartition("/")[2])
    is_of_slice = isinstance(name, LogFileName) and not table.version.has_completion_times
    return Finding(
        severity=Severity.ERROR,
        problem=problem,
        path=path,
        detail=f"{error.message}; put a copy of the file back",
        command=None if name is None or is_of_slice else restore_before(table, name.instant_time),
    )


def mend(call: ServiceCall, findings: Iterable[Finding]) -> list[str]:
    """Do what mends these findings, and return what was done, in order. Cost: that of what is done.

    Raises the first error after all of it was tried.
    """
    listed = list(findings)
    wanted = {finding.mend for finding in listed if finding.mend is not None}
    done, errors = [], []
    for step in Mend:
        if step in wanted:
            try:
                _mend(call.reloaded(), step, [finding.path for finding in listed if finding.mend is step])
            except HudiError as error:
                errors.append(error)
            else:
                done.append(step.value)
    if errors:
        raise errors[0]
    return done


def _mend(call: ServiceCall, step: Mend, paths: Sequence[str]) -> None:
    match step:
        case Mend.PROPERTIES:
            finish_change_of_properties(call)
        case Mend.ROLL_BACK:
            recover(call.table, call.settings, call.environment)
        case Mend.CLEAN_PLANS:
            remove_corrupt_clean_plans(call)
        case Mend.MARKERS:
            for path in paths:
                delete_markers(call, path.rpartition("/")[2])
        case Mend.ORPHANS:
            remove_orphans(readable_view(call.table))
        case Mend.METAFILES:
            add_partition_metafiles(call, damaged=paths)
        case Mend.METADATA_TABLE:
            rebuild_metadata_table(call.table, call.settings, call.environment, call.engine)
        case Mend.SERVICES:
            for _ in run_due(call):
                pass
