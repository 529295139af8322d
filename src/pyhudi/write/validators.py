"""Pre-commit validators: they see the partitions of a write before and after it, and may refuse its commit.

"After" is read through an overlay of the store in which the completed instant is there already, so that validators see
what readers will see, and no reader sees it before they have agreed. Writes that were completed since this one began
are in neither of the two.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa

from pyhudi.config.options_hooks import (
    EQUALITY,
    INEQUALITY,
    SINGLE_RESULT,
    TABLE_VARIABLE,
    FailurePolicy,
    ValidatorOptions,
)
from pyhudi.config.read_config import ReadConfig
from pyhudi.errors import HudiError, UnsupportedFeatureError, ValidationError
from pyhudi.format.metadata.commit import CommitMetadata, encode_commit_metadata
from pyhudi.hooks.callbacks import imported_function
from pyhudi.read.arrow import read_batches
from pyhudi.read.scan import ScanPlan, plan_table_scan
from pyhudi.storage.overlay import OverlayStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.instant_times import completed_now
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path
from pyhudi.telemetry.tracing import span
from pyhudi.transaction.transaction import Transaction
from pyhudi.write.job import WriteJob

_BEFORE: Final = "table_before_the_write"
_AFTER: Final = "table_after_the_write"
_log = logging.getLogger("pyhudi")


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a state, read anew by whoever asks for them."""

    storage: Storage
    plan: ScanPlan | None
    schema: pa.Schema

    def reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self.plan is not None:
            for batch in read_batches(self.storage, self.plan, self.schema.names, None):
                yield batch.cast(self.schema)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.reader().__arrow_c_stream__(requested_schema)


def validate(job: WriteJob, transaction: Transaction, metadata: CommitMetadata) -> None:
    """Ask the validators of the options; nothing where there are none.

    Raises `ValidationError` where one refuses. Cost: each SQL query reads the partitions that the write changed, before
    it or after it or both; a function reads what it wants of them. The rows pass through in batches.
    """
    options = job.config.validators
    if not options.validators:
        return
    with span("validate"):
        before, after = _states(job, transaction, metadata)
        for name in options.validators:
            if (reason := _refusal(name, options, before, after)) is None:
                continue
            if options.policy is FailurePolicy.FAIL:
                raise ValidationError(
                    "a validator refuses this write, of which nothing is visible: correct its rows, or the validator",
                    validator=name,
                    reason=reason,
                    table=job.table.storage.uri,
                )
            _log.warning("a validator would refuse the write %s: %s: %s", transaction.instant_time, name, reason)


def _states(job: WriteJob, transaction: Transaction, metadata: CommitMetadata) -> tuple[_Rows, _Rows]:
    base = transaction.base
    storage, version = base.storage, base.version
    (pending,) = (
        instant for instant in base.reload().timeline.instants if instant.requested_time == transaction.instant_time
    )
    completed = completed_now(pending, base.timeline, base.config, transaction.environment.clock)
    body = encode_commit_metadata(metadata, version)
    overlay = OverlayStorage(storage, {instant_path(completed, version): body})
    touched = {*metadata.stats_by_partition, *(metadata.replaced_file_ids or {})}
    mergers = () if job.rules.merger is None else (job.rules.merger,)
    config = ReadConfig(metadata_table=False, data_skipping=False)
    after = plan_table_scan(load_table(overlay), config, mergers)
    before = plan_table_scan(base, config, mergers) if base.timeline.completed_writes else None

    def of_touched(plan: ScanPlan) -> ScanPlan:
        return replace(
            plan, slices=tuple(file_slice for file_slice in plan.slices if file_slice.partition_path in touched)
        )

    before_schema = after.schema if before is None else before.schema
    return (
        _Rows(storage, None if before is None else of_touched(before), before_schema),
        _Rows(overlay, of_touched(after), after.schema),
    )


def _refusal(name: str, options: ValidatorOptions, before: _Rows, after: _Rows) -> str | None:
    """Why a validator refuses; None where it agrees."""
    if name == EQUALITY:
        return _of_queries(options.equality, before, after, _changed)
    if name == INEQUALITY:
        return _of_queries(options.inequality, before, after, _unchanged)
    if name == SINGLE_RESULT:
        return _of_queries(options.single_values, before, after, _other_than_expected)
    return _of_function(name, before, after)


def _of_function(name: str, before: _Rows, after: _Rows) -> str | None:
    function = imported_function(name, "hoodie.precommit.validators")
    try:
        answer = function(before.reader(), after.reader())
    except HudiError:
        raise
    except Exception as error:  # noqa: BLE001  # the function is the user's
        return f"{type(error).__name__}: {error}"
    if answer is None or answer is True:
        return None
    return "it returned False" if answer is False else str(answer)


def _of_queries(
    queries: tuple[Any, ...], before: _Rows, after: _Rows, refusal: Callable[[Any, Any], str | None]
) -> str | None:
    try:
        import duckdb  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UnsupportedFeatureError("validators in SQL need DuckDB: pip install 'pyhudi[duckdb]'") from error
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register(_BEFORE, before)
        connection.register(_AFTER, after)
        try:
            return next((reason for query in queries if (reason := refusal(connection, query)) is not None), None)
        except duckdb.Error as error:
            return f"DuckDB: {error}"


def _differ(connection: Any, query: str) -> bool:
    before, after = (f"SELECT * FROM ({query.replace(TABLE_VARIABLE, name)})" for name in (_BEFORE, _AFTER))  # noqa: S608
    sql = f"SELECT EXISTS (({before} EXCEPT ALL {after}) UNION ALL ({after} EXCEPT ALL {before}))"
    ((differ,),) = connection.sql(sql).fetchall()
    return bool(differ)


def _changed(connection: Any, query: str) -> str | None:
    return f"the result has changed: {query}" if _differ(connection, query) else None


def _unchanged(connection: Any, query: str) -> str | None:
    return None if _differ(connection, query) else f"the result has not changed: {query}"


def _other_than_expected(connection: Any, query: tuple[str, str]) -> str | None:
    sql, expected = query
    rows = connection.sql(sql.replace(TABLE_VARIABLE, _AFTER)).limit(2).fetchall()
    if len(rows) != 1 or len(rows[0]) != 1:
        return f"the query must give one value: {sql}"
    found = _text(rows[0][0])
    return None if found == expected else f"{expected} was expected, and {found} is there: {sql}"


def _text(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
