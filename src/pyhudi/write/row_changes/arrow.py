"""Changes computed in Arrow: the rows of merges, updates and deletions by condition (`pyhudi.tasks.row_changes`).

A merge holds its source in memory, and reads the target piece by piece: memory is that of the source, of one piece of
the target, and of the rows that they make. A merge whose rows the index can match reads no target, and its source is
passed on batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import acero

from pyhudi.engine.local import as_table
from pyhudi.errors import ConfigError, SchemaMismatchError
from pyhudi.format.schema.avro_arrow import normalise
from pyhudi.format.schema.evolution import align
from pyhudi.format.schema.meta_columns import PARTITION_PATH, RECORD_KEY
from pyhudi.read.conditions import columns_of
from pyhudi.tasks.row_changes import CONTROL_FIELDS, Change
from pyhudi.write.job import WriteJob
from pyhudi.write.row_changes.plan import (
    Clause,
    Delete,
    MergePlan,
    OfSource,
    Update,
    changes_by_record,
    column_finder,
    equalities,
    has_exact_text,
    is_global,
    is_kept,
    stores_rows_of_source,
)

CONTROL_NAMES = (RECORD_KEY, PARTITION_PATH)
"""The meta columns by which changes name stored records."""
PIECE_BYTES = 64 << 20
VALUES_MAX = 1_000
"""Up to so many distinct values of a column of the source name the rows of the target to read; above it their range."""
_SOURCE_ROW, _TARGET_ROW = "#source_row", "#target_row"

ReadTarget = Callable[[Sequence[str], Any], Iterator[pa.RecordBatch]]
"""The rows of the table with these columns, under a condition as `HudiTable.scan` takes it."""


@dataclass(frozen=True, slots=True)
class ArrowChanges:
    """The rows of a merge, and whether rows of the target are read for them."""

    rows: pa.RecordBatchReader
    reads_target: bool


def changes_schema(job: WriteJob) -> pa.Schema:
    """The control columns, and those of the table, which may be null in rows that are deleted."""
    return pa.schema([*CONTROL_FIELDS, *(field.with_nullable(True) for field in job.schema.arrow)])


def changes_of_merge(job: WriteJob, plan: MergePlan, source: Any, read_target: ReadTarget) -> ArrowChanges:
    """The changes of a merge. `plan` as `named_columns` gives it; `source`: a table or reader of Arrow."""
    pairs = equalities(plan)
    if pairs is None:
        raise ConfigError(
            "without Spark, ON compares columns of both sides: a name, a list of names, or text such as "
            f"'{plan.target}.id = {plan.source}.id AND {plan.target}.city = {plan.source}.city'",
            on=str(plan.on),
        )
    merge = _Merge(job, plan, pairs, normalise(source.schema))
    schema = changes_schema(job)
    if merge.is_upsert:
        batches = source.to_batches() if isinstance(source, pa.Table) else source
        return ArrowChanges(pa.RecordBatchReader.from_batches(schema, _piece_by_piece(merge, batches)), False)
    table = align(as_table(source), merge.source)
    return ArrowChanges(pa.RecordBatchReader.from_batches(schema, merge.joined(table, read_target)), True)


def changes_of_rows(
    job: WriteJob, batches: Iterable[pa.RecordBatch], values: Mapping[str, Any] | None
) -> pa.RecordBatchReader:
    """The changes of an update of these rows of the table, or, without `values`, of their deletion."""

    def changed() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            side = {name: name for name in rows.column_names}
            made = (
                None
                if values is None
                else {n: _evaluated(rows, _operand(v, rows.schema, n)) for n, v in values.items()}
            )
            yield from _changed(job, rows, made, side).to_batches()

    return pa.RecordBatchReader.from_batches(changes_schema(job), changed())


def check_values(job: WriteJob, values: Mapping[str, Any]) -> None:
    """Raise `ConfigError` for a value that names no column, or is of no type that fits, before a row is read."""
    rows = pa.schema([*CONTROL_FIELDS[:2], *job.schema.arrow]).empty_table()
    for name, value in values.items():
        _as_type(_evaluated(rows, _operand(value, rows.schema, name)), job.schema.arrow.field(name).type, name)


def check_resolves(job: WriteJob, plan: MergePlan, source: pa.Schema) -> None:
    """Evaluate all conditions and values on no rows, so that their errors are raised before the write begins."""
    pairs = equalities(plan)
    merge = _Merge(job, plan, pairs or (), normalise(source))
    for target, other in merge.pairs:
        _join_type(job.schema.arrow.field(target).type, merge.source.field(other).type, target)
    nothing = merge.joint_schema.empty_table()
    for clause in plan.clauses:
        merge.rows_of(clause, nothing)
        merge.holds(clause, nothing)


def _piece_by_piece(merge: _Merge, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield from merge.by_record(align(pa.Table.from_batches([batch]), merge.source)).to_batches()


class _Merge:
    """One merge: its plan, and the columns of both sides as they are called in expressions."""

    def __init__(self, job: WriteJob, plan: MergePlan, pairs: Sequence[tuple[str, str]], source: pa.Schema) -> None:
        self.job, self.plan, self.source = job, plan, source
        self.pairs = [
            (_spelled(job.schema.arrow, target, plan.target), _spelled(source, other, plan.source))
            for target, other in pairs
        ]
        stored = pa.schema([*CONTROL_FIELDS[:2], *job.schema.arrow])
        self.joint_schema = pa.schema(
            [
                *(field.with_name(f"{plan.target}.{field.name}").with_nullable(True) for field in stored),
                *(field.with_name(f"{plan.source}.{field.name}").with_nullable(True) for field in source),
            ]
        )

    # --- by the record key ---

    @property
    def is_upsert(self) -> bool:
        """Whether the index can match the rows, and all values are those of the source."""
        plan, source = self.plan, self.source
        return stores_rows_of_source(self.job, plan, self.pairs, source, source.names) and all(
            clause.condition is None or not self._of_target(clause.condition, clause) for clause in plan.clauses
        )

    def by_record(self, source: pa.Table) -> pa.Table:
        """The changes of some rows of the source, of which the index is to say whether they are matched."""
        rows = self._joint(None, source)
        comparable = reduce(np.logical_and, (_valid(source.column(other)) for _, other in self.pairs))
        stored, absent = self._chosen(self.plan.matched, rows), self._chosen(self.plan.not_matched, rows)
        stored = np.where(comparable, stored, -1)
        deletes = [number for number, clause in enumerate(self.plan.matched) if isinstance(clause, Delete)]
        made = changes_by_record(stored >= 0, np.isin(stored, deletes), absent >= 0, comparable)
        code = np.select([applies for applies, _ in made], [change for _, change in made], default=0)
        find = column_finder(source.column_names)
        columns = [_as_type(source.column(find(field.name)), field.type, field.name) for field in self.job.schema.arrow]
        nothing = pa.nulls(source.num_rows, pa.string())
        coded = [nothing, nothing, pa.array(code, pa.int8()), *columns]
        return pa.Table.from_arrays(coded, schema=changes_schema(self.job)).filter(pa.array(code > 0))

    # --- by a join ---

    def joined(self, source: pa.Table, read_target: ReadTarget) -> Iterator[pa.RecordBatch]:
        """The changes of the whole merge. `source`: all its rows."""
        keys = self._source_keys(source)
        met = np.zeros(source.num_rows, dtype=bool)
        for piece in _pieces(read_target(self._target_columns(), self._where(source))):
            at_source, at_target = self._pairs_of(keys, piece)
            met[at_source] = True
            rows = self._joint(piece.take(pa.array(at_target)), source.take(pa.array(at_source)))
            yield from self._made(self.plan.matched, rows)
            if self.plan.not_matched_by_source:
                alone = np.ones(piece.num_rows, dtype=bool)
                alone[at_target] = False
                yield from self._made(self.plan.not_matched_by_source, self._joint(piece.filter(pa.array(alone)), None))
        if self.plan.not_matched:
            yield from self._made(self.plan.not_matched, self._joint(None, source.filter(pa.array(~met))))

    def _made(self, clauses: Sequence[Clause], rows: pa.Table) -> Iterator[pa.RecordBatch]:
        chosen = self._chosen(clauses, rows)
        for number, clause in enumerate(clauses):
            of_clause = chosen == number
            if of_clause.any():
                yield from self.rows_of(clause, rows.filter(pa.array(of_clause))).to_batches()

    def _chosen(self, clauses: Sequence[Clause], rows: pa.Table) -> npt.NDArray[np.int64]:
        """By row the number of the first clause whose condition holds, -1 where none does."""
        chosen = np.full(rows.num_rows, -1, dtype=np.int64)
        for number, clause in enumerate(clauses):
            chosen[(chosen < 0) & self.holds(clause, rows)] = number
        return chosen

    def holds(self, clause: Clause, rows: pa.Table) -> npt.NDArray[np.bool_]:
        """A mask of the rows that meet the condition of a clause."""
        if clause.condition is None:
            return np.ones(rows.num_rows, dtype=bool)
        truth = _evaluated(rows, self._operand(clause.condition, clause))
        if not pa.types.is_boolean(truth.type):
            raise ConfigError(f"a condition is of type {truth.type}, not true or false", given=str(clause.condition))
        return np.asarray(truth.fill_null(False).to_numpy(), dtype=bool)

    def rows_of(self, clause: Clause, rows: pa.Table) -> pa.Table:
        """The changes that a clause makes of joined rows."""
        job, plan = self.job, self.plan
        stored = {name: f"{plan.target}.{name}" for name in (RECORD_KEY, PARTITION_PATH, *job.schema.arrow.names)}
        if isinstance(clause, Delete):
            if clause in plan.matched:
                # Of several rows of the source about one record, the ordering values of the source decide.
                find = column_finder(self.source.names)
                for name in job.combining_rules.ordering_fields:
                    of_source = find(name)
                    if of_source is not None:
                        stored[name] = f"{plan.source}.{of_source}"
                    elif job.schema.arrow.field(name).nullable:
                        del stored[name]
            return _changed(job, rows, None, stored)
        values = clause.values or {}
        made = {name: self._values(value, clause, name, rows) for name, value in values.items()}
        return _changed(job, rows, made, stored if isinstance(clause, Update) else None)

    def _values(self, value: Any, clause: Clause, column: str, rows: pa.Table) -> pa.ChunkedArray:
        """What a clause gives a column. To compute it Arrow looks at all columns, of which there may be thousands."""
        if isinstance(value, OfSource):
            at = rows.schema.get_field_index(f"{self.plan.source}.{value.name}")
            if at >= 0:
                return rows.column(at)
        return _evaluated(rows, self._operand(value, clause, column))

    def _operand(self, value: Any, clause: Clause, column: str | None = None) -> pc.Expression:
        if isinstance(value, OfSource):
            return pc.field(f"{self.plan.source}.{value.name}")
        sides = [self.plan.target, self.plan.source]
        if clause in self.plan.not_matched:
            sides = [self.plan.source]
        elif clause in self.plan.not_matched_by_source:
            sides = [self.plan.target]
        visible = [field for field in self.joint_schema if field.name.partition(".")[0] in sides]
        return _operand(value, pa.schema(visible), column)

    def _of_target(self, value: Any, clause: Clause) -> list[str]:
        """The columns of the target in a condition or value."""
        named = columns_of(self._operand(value, clause), self.joint_schema)
        prefix = f"{self.plan.target}."
        return [name.removeprefix(prefix) for name in named if name.startswith(prefix)]

    def _target_columns(self) -> list[str]:
        """The columns of the target that have to be read."""
        job, plan = self.job, self.plan
        names = job.schema.arrow.names
        if any(isinstance(clause, Update) and len(clause.values or ()) < len(names) for clause in plan.clauses):
            return [RECORD_KEY, PARTITION_PATH, *names]
        needed = {name for name in names if is_kept(job, name)} | {target for target, _ in self.pairs}
        for clause in plan.clauses:
            values = [] if isinstance(clause, Delete) else list((clause.values or {}).values())
            for value in (*values, *([] if clause.condition is None else [clause.condition])):
                needed.update(self._of_target(value, clause))
        return [RECORD_KEY, PARTITION_PATH, *(name for name in names if name in needed)]

    def _where(self, source: pa.Table) -> Any:
        """A condition that all rows of the target meet which a row of the source can match; None: all may be needed."""
        if self.plan.not_matched_by_source:
            return None
        comparisons = []
        for target, other in self.pairs:
            kind = self.job.schema.arrow.field(target).type
            if kind != source.schema.field(other).type or not has_exact_text(kind):
                continue
            values = source.column(other).drop_null().unique()
            if 0 < len(values) <= VALUES_MAX:
                comparisons.append((target, "in", values.to_pylist()))
            elif len(values):
                range_ = pc.min_max(values).as_py()
                comparisons += [(target, ">=", range_["min"]), (target, "<=", range_["max"])]
        return comparisons or None

    def _joint(self, target: pa.Table | None, source: pa.Table | None) -> pa.Table:
        """Rows of both sides beside each other; the columns of a side that is not there, or was not read, are null."""
        count = (target if target is not None else source).num_rows  # type: ignore[union-attr]
        columns = {f"{self.plan.target}.{name}": target.column(name) for name in target.column_names} if target else {}
        if source is not None:
            columns |= {f"{self.plan.source}.{name}": source.column(name) for name in source.column_names}
        arrays = [
            columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in self.joint_schema
        ]
        return pa.Table.from_arrays(arrays, schema=self.joint_schema)

    def _source_keys(self, source: pa.Table) -> pa.Table:
        columns = {}
        for number, (target, other) in enumerate(self.pairs):
            kind = _join_type(self.job.schema.arrow.field(target).type, source.schema.field(other).type, target)
            columns[str(number)] = source.column(other).cast(kind)
        return pa.table({**columns, _SOURCE_ROW: np.arange(source.num_rows)})

    def _pairs_of(self, keys: pa.Table, piece: pa.Table) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The row numbers of the source and of the piece that ON brings together."""
        names = [str(number) for number in range(len(self.pairs))]
        columns = {
            name: piece.column(target).cast(keys.schema.field(name).type)
            for name, (target, _) in zip(names, self.pairs, strict=True)
        }
        numbered = pa.table({**columns, _TARGET_ROW: np.arange(piece.num_rows)})
        found = numbered.join(keys, names, join_type="inner").select([_SOURCE_ROW, _TARGET_ROW])
        return np.asarray(found.column(_SOURCE_ROW)), np.asarray(found.column(_TARGET_ROW))


def _changed(
    job: WriteJob, rows: pa.Table, values: Mapping[str, pa.ChunkedArray] | None, stored: Mapping[str, str] | None
) -> pa.Table:
    """Changes with these values, and otherwise those of the stored rows: updates, or deletions without values.

    `stored`: where the columns of the stored rows are in `rows`; None for inserts.
    """
    count, read = rows.num_rows, set(rows.column_names)
    change = Change.DELETE if values is None else Change.INSERT if stored is None else Change.UPDATE
    nothing = pa.nulls(count, pa.string())
    columns: list[Any] = [
        nothing if stored is None else rows.column(stored[RECORD_KEY]),
        nothing if stored is None or is_global(job) else rows.column(stored[PARTITION_PATH]),
        pa.repeat(pa.scalar(int(change), pa.int8()), count),
    ]
    for field in job.schema.arrow:
        if values is not None and field.name in values:
            columns.append(_as_type(values[field.name], field.type, field.name))
        elif stored is None or (values is None and not is_kept(job, field.name) and not _orders(job, field.name)):
            columns.append(pa.nulls(count, field.type))
        elif stored.get(field.name) in read:
            columns.append(_as_type(rows.column(stored[field.name]), field.type, field.name))
        else:
            columns.append(pa.nulls(count, field.type))
    return pa.Table.from_arrays(columns, schema=changes_schema(job))


def _orders(job: WriteJob, name: str) -> bool:
    return name in job.combining_rules.ordering_fields


def deleted_columns(job: WriteJob) -> list[str]:
    """The columns that a deletion by condition needs of the rows that it deletes."""
    return [RECORD_KEY, PARTITION_PATH, *(name for name in job.schema.arrow.names if is_kept(job, name))]


def _operand(value: Any, schema: pa.Schema, column: str | None) -> pc.Expression:
    """A value as an expression: expressions stay, texts name columns, everything else is a literal."""
    if isinstance(value, pc.Expression):
        return value
    if isinstance(value, str):
        return pc.field(_column_named(value, schema, column))
    return pc.scalar(value)


def _column_named(text: str, schema: pa.Schema, column: str | None) -> str:
    found = [name for name in schema.names if name.lower() == text.lower()] or [
        name for name in schema.names if name.lower().partition(".")[2] == text.lower()
    ]
    if len(found) != 1:
        raise ConfigError(
            f"{text!r} names {'no column' if not found else 'a column of both sides'}; write source.name or "
            "target.name, and a literal text as pyarrow.compute.scalar(…)",
            column=column,
        )
    return str(found[0])


def _evaluated(rows: pa.Table, expression: pc.Expression) -> pa.ChunkedArray:
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    projected = acero.Declaration("project", acero.ProjectNodeOptions([expression], ["it"]), [source])
    try:
        return projected.to_table(use_threads=False).column("it")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError) as error:
        raise ConfigError(f"this value or condition cannot be computed: {error}", given=str(expression)) from error


def _as_type(values: pa.ChunkedArray, kind: pa.DataType, name: str) -> pa.ChunkedArray:
    if values.type == kind:
        return values
    if all(map(pa.types.is_timestamp, (values.type, kind))) and (values.type.tz is None) != (kind.tz is None):
        raise SchemaMismatchError(
            f"a value for column {name!r} is {values.type} and the column {kind}: which instant a time without a zone "
            "means is not known; give it the column's type (pyarrow.compute.assume_timezone, local_timestamp)",
            column=name,
        )
    try:
        return values.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatchError(
            f"a value for column {name!r} is {values.type} and does not fit its type {kind}: {error}", column=name
        ) from error


def _join_type(target: pa.DataType, source: pa.DataType, column: str) -> pa.DataType:
    """The type in which two columns are compared: the wider one."""
    if target == source:
        return target
    if pa.types.is_integer(target) and pa.types.is_integer(source):
        return pa.int64()
    if pa.types.is_null(source):
        return target
    raise SchemaMismatchError(
        f"ON compares column {column!r}, which is {target} in the target, with {source}: cast the source's column",
        column=column,
        table_type=str(target),
        rows_type=str(source),
    )


def _spelled(schema: pa.Schema, name: str, side: str) -> str:
    column = column_finder(schema.names)(name)
    if column is not None:
        return column
    raise ConfigError(f"ON names column {name!r}, which {side!r} does not have", column=name, columns=schema.names)


def _valid(column: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    return np.asarray(column.is_valid().to_numpy(), dtype=bool)


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows in pieces of about `PIECE_BYTES`: each is joined with the whole source."""
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        if size >= PIECE_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, size = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)
