"""Changes of single rows: what `merge`, `update` and `delete_where` of `HudiTable` do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from pyhudi.api.arguments import HudiOptions
from pyhudi.api.handle import TableHandle
from pyhudi.api.rows import RowsLike, engine_for
from pyhudi.api.scan import Scan, bytes_of, scan_for_write
from pyhudi.config.payloads import EVENT_TIME_PAYLOAD
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.inputs import opened
from pyhudi.engine.local import LocalEngine
from pyhudi.engine.protocol import Engine
from pyhudi.errors import InvalidRequestError
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.write.job import OPERATION_KEY, WriteJob
from pyhudi.write.operations import ApplyChanges, RowsRead
from pyhudi.write.result import WriteResult
from pyhudi.write.row_changes import arrow
from pyhudi.write.row_changes.plan import (
    TARGET,
    Delete,
    Insert,
    MergePlan,
    Update,
    asks_whether_stored,
    assigned,
    change_keys,
    check_has_keys,
    check_plan,
    expressions_of,
    named_columns,
    partial_columns,
    rows_read,
    updated_columns,
)
from pyhudi.write.run import ComputedChanges, write

_QUERY = re.compile(r"\bSELECT\b|\(\s*(?:FROM|TABLE|VALUES|WITH|MAP|REDUCE)\b", re.IGNORECASE)
PAYLOAD_KEY = "hoodie.datasource.write.payload.class"


@dataclass(frozen=True)
class Merge:
    """A merge that is being described: each method gives a new one with one more clause, and `execute` runs it.

    The clauses of a kind (matched, not matched, not matched by source) are tried in order for each row, and the first
    whose condition holds decides. With a Spark DataFrame as source, conditions and values are SQL texts or Columns.
    With other sources, conditions are Arrow expressions (`pyarrow.compute`), and so may values be; a text is the name
    of a column, such as `source.fare`, and every other value is a literal.

    Attributes:
        plan: what has been described so far.
    """

    plan: MergePlan
    _handle: TableHandle = field(repr=False)
    _source: Any = field(repr=False)
    _again: Callable[[], Any] | None = field(default=None, repr=False)
    """Makes the source anew where it is a query of the table itself, for each attempt from the newest state."""

    def when_matched_update(self, *, set: Mapping[str, Any], condition: Any = None) -> Merge:  # noqa: A002
        """Give these columns of a row of the table new values. Cost: none yet."""
        return self._matched(Update(dict(set), condition))

    def when_matched_update_all(self, *, condition: Any = None) -> Merge:
        """Give all columns the values of the source's columns of the same names. Cost: none yet."""
        return self._matched(Update(None, condition))

    def when_matched_delete(self, *, condition: Any = None) -> Merge:
        """Delete the row of the table. Cost: none yet."""
        return self._matched(Delete(condition))

    def when_not_matched_insert(self, *, values: Mapping[str, Any], condition: Any = None) -> Merge:
        """Insert a row with these values, and null in the other columns. Cost: none yet."""
        return self._with(not_matched=(*self.plan.not_matched, Insert(dict(values), condition)))

    def when_not_matched_insert_all(self, *, condition: Any = None) -> Merge:
        """Insert the row of the source. Cost: none yet."""
        return self._with(not_matched=(*self.plan.not_matched, Insert(None, condition)))

    def when_not_matched_by_source_update(self, *, set: Mapping[str, Any], condition: Any = None) -> Merge:  # noqa: A002
        """Give columns of a row of the table, which no row of the source matches, new values. Cost: none yet."""
        return self._by_source(Update(dict(set), condition))

    def when_not_matched_by_source_delete(self, *, condition: Any = None) -> Merge:
        """Delete a row of the table that no row of the source matches. Cost: none yet."""
        return self._by_source(Delete(condition))

    def execute(self, *, hudi_options: HudiOptions | None = None) -> WriteResult:
        """Run the merge: one commit with all that it inserts, updates and deletes.

        An update goes by the merge rule of the table, like an upsert: with ordering fields a row that is older than the
        stored one changes nothing. A deletion always deletes.

        Raises:
            InvalidRequestError: there is no clause, or one that can never apply.
            ConfigError: a column is unknown, or a condition or value cannot be computed.
            AmbiguousChangeError: several rows of the source are about one record, and no ordering value decides.
            RecordKeyError: a record to be inserted is stored already, or an update would change a record key.
            UnsupportedFeatureError: the table stores no keys, or its writers take no lock.
            WriteConflictError: another writer changed rows that the merge read. It is run again as often as
                `hoodie.write.num.retries.on.conflict.failures` says.

        And what all writes raise. Cost: where ON compares all fields of the record key and the partition path, and
        all values are those of the source, that of an `upsert`; otherwise also a scan of the table and a join. The
        scan leaves out what the keys of the source rule out, unless a clause is about rows not matched by the source.
        """
        check_plan(self.plan)
        engine = self._handle.engine if self._handle.engine.accepts(self._source) else engine_for(self._source)
        options, config = _request(self._handle, hudi_options, WriteOperation.UPSERT, call="merge")
        source = self._source
        if isinstance(engine, LocalEngine):
            source = opened(source)
            if config.concurrency.conflict_retries and isinstance(source, pa.RecordBatchReader):
                source = source.read_all()  # a stream can be read once

        def changes(job: WriteJob) -> tuple[Any, ApplyChanges]:
            given = source if self._again is None else self._again()
            kept.enter_context(_released(given, engine))
            names, case_sensitive = _names_of(given, engine), _are_case_sensitive(given, engine)
            plan = named_columns(self.plan, job.schema.arrow, names, case_sensitive=case_sensitive)
            check_has_keys(job.table.config)
            keys = change_keys(job, updated_columns(plan), is_merge=True)
            evaluate = _in_arrow if isinstance(engine, LocalEngine) else _on_spark
            rows, is_joined = evaluate(self._handle, job, plan, given)
            without_join = RowsRead.NONE if self._again is None else RowsRead.CHANGED
            read = rows_read(job, plan) if is_joined else without_join
            if is_joined and not isinstance(engine, LocalEngine) and asks_other_rows(expressions_of(plan)):
                read = RowsRead.ALL
            asks = asks_whether_stored(plan, keys, is_joined=is_joined)
            return rows, ApplyChanges(WriteOperation.UPSERT, keys, read, partial_columns(job, plan), asks)

        with ExitStack() as kept:
            return _write(self._handle, changes, config, options, engine)

    def _matched(self, clause: Update | Delete) -> Merge:
        return self._with(matched=(*self.plan.matched, clause))

    def _by_source(self, clause: Update | Delete) -> Merge:
        return self._with(not_matched_by_source=(*self.plan.not_matched_by_source, clause))

    def _with(self, **clauses: Any) -> Merge:
        return replace(self, plan=replace(self.plan, **clauses))


def merge_of(handle: TableHandle, source: RowsLike, on: Any, target_name: str, source_name: str) -> Merge:
    """The beginning of a merge; see `HudiTable.merge`."""
    if source is None:
        raise InvalidRequestError("there are no rows: None was given", operation="merge")
    return Merge(MergePlan(on=on, target=target_name, source=source_name), handle, source)


def change_rows(
    handle: TableHandle,
    where: Any,
    values: Mapping[str, Any] | None,
    hudi_options: HudiOptions | None,
    *,
    call: str,
    target_name: str = TARGET,
    before: Callable[[], None] | None = None,
) -> WriteResult:
    """Update the rows that meet a condition, or delete them if there are no `values`.

    `target_name`: what texts of SQL call the table. `before`: is called before each attempt. Errors and cost: see
    `HudiTable.update`.
    """
    operation = WriteOperation.DELETE if values is None else WriteOperation.UPSERT
    options, config = _request(handle, hudi_options, operation, call=call)
    is_local = isinstance(handle.engine, LocalEngine)

    def changes(job: WriteJob) -> tuple[Any, ApplyChanges]:
        if before is not None:
            before()
        given = None if values is None else assigned(values, job.schema.arrow)
        check_has_keys(job.table.config)
        keys = change_keys(job, given or (), is_merge=False)
        rows: Any
        if is_local:
            arrow.check_values(job, given or {})
            columns = arrow.deleted_columns(job) if given is None else [*arrow.CONTROL_NAMES, *job.schema.arrow.names]
            scan = _scan(handle, job, columns, where)
            rows = arrow.changes_of_rows(job, scan.to_batches(), given)
        else:
            rows = _rows_on_spark(handle, job, where, given, target_name)
        has_query = not is_local and asks_other_rows((where, *(given or {}).values()))
        read = RowsRead.ALL if has_query else RowsRead.CHANGED
        return rows, ApplyChanges(operation, keys, read, asks_whether_stored=keys.moves)

    return _write(handle, changes, config, options, handle.engine)


def asks_other_rows(texts: Iterable[Any]) -> bool:
    """Whether a condition or a value asks other rows. Which rows, cannot be told from its text."""
    return any(_QUERY.search(text) for text in texts if isinstance(text, str))


def _request(
    handle: TableHandle, hudi_options: HudiOptions | None, operation: WriteOperation, *, call: str
) -> tuple[dict[str, str], WriteConfig]:
    options = handle.options_of_call(hudi_options, call=call)
    options[OPERATION_KEY] = operation.value
    config = WriteConfig.from_options(options)
    table = handle.state.config
    if call == "merge" and table.leaves_merging_to_writes and table.ordering_fields and config.merge_mode is None:
        options[PAYLOAD_KEY] = EVENT_TIME_PAYLOAD  # as MERGE INTO of 0.15.0, other than its UPDATE and its DataFrames
        config = WriteConfig.from_options(options)
    return options, config


def _write(
    handle: TableHandle,
    changes: Callable[[WriteJob], tuple[Any, ApplyChanges]],
    config: WriteConfig,
    options: Mapping[str, str],
    engine: Engine,
) -> WriteResult:
    with handle.changing():
        return write(
            ComputedChanges(changes),
            handle.storage,
            config=config,
            options=options,
            engine=engine,
            environment=handle.environment,
            mergers=handle.mergers,
        )


def _names_of(source: Any, engine: Engine) -> list[str]:
    """The columns of a source. Those of Spark may have types that no table stores: only some of them are used."""
    return list(engine.schema_of(source).names if isinstance(engine, LocalEngine) else source.columns)


def _are_case_sensitive(source: Any, engine: Engine) -> bool:
    """Whether letter case counts in names of the source: only where Spark is told so."""
    if isinstance(engine, LocalEngine):
        return False
    from pyhudi.spark.settings import setting  # noqa: PLC0415

    return (setting(source.sparkSession, "spark.sql.caseSensitive") or "").lower() == "true"


def _released(source: Any, engine: Engine) -> AbstractContextManager[None]:
    """Release what a merge on Spark keeps of its source, after the merge."""
    if isinstance(engine, LocalEngine):
        return nullcontext()
    from pyhudi.spark.row_changes import released  # noqa: PLC0415

    return released(source)


def _scan(handle: TableHandle, job: WriteJob, columns: Any, where: Any) -> Scan:
    """The rows of the table that the write starts from."""
    return scan_for_write(replace(handle, loaded=job.table), columns, where)


def _in_arrow(handle: TableHandle, job: WriteJob, plan: MergePlan, source: Any) -> tuple[Any, bool]:
    arrow.check_resolves(job, plan, source.schema)
    made = arrow.changes_of_merge(
        job, plan, source, lambda columns, where: _scan(handle, job, columns, where).to_batches()
    )
    return made.rows, made.reads_target


def _on_spark(handle: TableHandle, job: WriteJob, plan: MergePlan, source: Any) -> tuple[Any, bool]:
    # Only what runs on Spark needs pyspark.
    from pyhudi.spark import row_changes as spark_changes  # noqa: PLC0415

    return spark_changes.changes_of_merge(
        job,
        plan,
        source,
        lambda where: _scan(handle, job, None, where).to_df(source.sparkSession),
        target_bytes=bytes_of(_scan(handle, job, None, None)),
    )


def _rows_on_spark(
    handle: TableHandle, job: WriteJob, where: Any, values: Mapping[str, Any] | None, target_name: str
) -> Any:
    from pyhudi.spark import row_changes as spark_changes  # noqa: PLC0415
    from pyhudi.spark.engine import SparkEngine  # noqa: PLC0415

    assert isinstance(handle.engine, SparkEngine)
    compares = isinstance(where, list | tuple)
    target = _scan(handle, job, None, where if compares else None).to_df(handle.engine.spark)
    return spark_changes.changes_of_rows(job, target, None if compares else where, values, target_name)
