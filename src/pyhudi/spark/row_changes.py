"""Changes computed by Spark: the rows of merges, updates and deletions by condition (`pyhudi.tasks.row_changes`).

Conditions and values are SQL texts or Columns, which Spark resolves and evaluates. Only the DataFrame API is used, so
it works on classic sessions and on Spark Connect.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial, reduce
from operator import and_
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql
from pyspark.sql.types import DataType, StructType

from pyhudi.errors import ConfigError, SchemaMismatchError
from pyhudi.format.schema.meta_columns import PARTITION_PATH, RECORD_KEY
from pyhudi.spark.fitted_values import Fit, fitting
from pyhudi.spark.types import arrow_schema, spark_schema
from pyhudi.spark.unlogged import unlogged
from pyhudi.tasks.row_changes import CHANGE, Change
from pyhudi.write.job import WriteJob
from pyhudi.write.row_changes.plan import (
    TARGET,
    Clause,
    Delete,
    Insert,
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

LARGE_TARGET_BYTES = 32 << 20
"""From this size of a table on, leaving out what the source cannot match is worth a job over the source."""
_CODES: Mapping[type, Change] = {Update: Change.UPDATE, Delete: Change.DELETE, Insert: Change.INSERT}


def quoted(name: str) -> str:
    """A name as Spark's SQL writes it."""
    return "`" + name.replace("`", "``") + "`"


def changes_of_merge(
    job: WriteJob, plan: MergePlan, source: DataFrame, read_target: Callable[[Any], DataFrame], target_bytes: int
) -> tuple[DataFrame, bool]:
    """The changes of a merge, and whether rows of the target were read for them.

    `plan` as `named_columns` gives it. `read_target`: the rows of the table with their meta columns, under a condition
    as `HudiTable.scan` takes it.

    Cost: where the target is large, one job that finds out which keys the source has. Then, and where clauses are
    evaluated one by one, the source is kept meanwhile (`DataFrame.persist`), so that it is evaluated once: see
    `released`.
    """
    pairs = equalities(plan)
    if pairs is not None and _is_upsert(job, plan, source, pairs):
        _check_conditions(job, plan, source)
        return _by_record(job, plan, source, pairs), False
    _check_resolves(job, plan, source)
    where = None
    if pairs and not plan.not_matched_by_source and target_bytes >= LARGE_TARGET_BYTES:
        where = _where(job, pairs, source)
    return _joined_changes(job, plan, source, read_target(where)), True


@contextmanager
def released(source: DataFrame) -> Iterator[None]:
    """Release the rows of a source after the block, if it was this module that kept them."""
    is_ours = not source.is_cached
    try:
        yield
    finally:
        if is_ours and source.is_cached:
            source.unpersist()


def _where(job: WriteJob, pairs: Sequence[tuple[str, str]], source: DataFrame) -> list[tuple[str, str, Any]] | None:
    """A condition that all rows of the target meet which a row of the source can match; None: all may be needed."""
    table, types = job.schema.arrow, _storable(source)
    of_table, of_source = column_finder(table.names), column_finder(types.names)
    chosen, asked = [], []
    for target, other in ((of_table(a), of_source(b)) for a, b in pairs):
        if target is None or other is None or table.field(target).type != types.field(other).type:
            continue
        if has_exact_text(table.field(target).type):
            column = sql.col(quoted(other))
            # A partition column has few values, which leave out whole partitions.
            values = sql.collect_set(column) if target in job.keys.partition_field_names else sql.lit(None)
            chosen.append(target)
            asked.append(sql.struct(sql.min(column), sql.max(column), values))
    if not asked:
        return None
    if not source.is_cached:
        source.persist()
    found: list[tuple[str, str, Any]] = []
    for target, (least, most, values) in zip(chosen, source.agg(*asked).first() or (), strict=True):
        if values:
            found.append((target, "in", list(values)))
        elif least is not None:
            found += [(target, ">=", least), (target, "<=", most)]
    return found or None


def _check_resolves(job: WriteJob, plan: MergePlan, source: DataFrame) -> None:
    """Let Spark resolve the whole merge against no rows, so that its errors are raised before a job runs."""
    _ = _joined_changes(job, plan, source, _no_rows(job, source)).schema


def _check_conditions(job: WriteJob, plan: MergePlan, source: DataFrame) -> None:
    """Let Spark resolve the conditions of matched rows, which see both sides: a name may be unclear there."""
    conditions = [as_column(clause.condition) for clause in plan.matched if clause.condition is not None]
    if conditions:
        left, right = _sides(plan, _no_rows(job, source), source)
        _ = left.join(right, how="cross").select(*conditions).schema


def _no_rows(job: WriteJob, source: DataFrame) -> DataFrame:
    """No rows of the table, with those meta columns that changes need."""
    meta = pa.schema([pa.field(RECORD_KEY, pa.string()), pa.field(PARTITION_PATH, pa.string())])
    return source.sparkSession.createDataFrame([], spark_schema(pa.schema([*meta, *job.schema.arrow])))


def _sides(plan: MergePlan, target: DataFrame, source: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Both sides by their names in the merge."""
    return (
        target.alias(plan.target) if plan.target else target,
        source.alias(plan.source) if plan.source else source,
    )


def changes_of_rows(
    job: WriteJob,
    target: DataFrame,
    where: str | Column | None,
    values: Mapping[str, Any] | None,
    name_of_target: str = TARGET,
) -> DataFrame:
    """The changes of an update of the rows that meet a condition, or, without `values`, of their deletion."""
    rows = target.alias(name_of_target)
    rows = rows if where is None else rows.where(as_column(where))
    change = Change.DELETE if values is None else Change.UPDATE
    rows, computed = _evaluated(rows, {name: as_column(value) for name, value in (values or {}).items()}, "#set")
    fit = fitting(rows)
    columns = []
    for name, kind in _types(job).items():
        value = _of(name_of_target, name)
        if values is None:
            value = value if is_kept(job, name) else sql.lit(None).cast(kind)
        elif name in values:
            value = fit(computed[name], kind, name)
        columns.append(value.alias(name))
    return rows.select(
        _of(name_of_target, RECORD_KEY).alias(RECORD_KEY),
        (sql.lit(None).cast("string") if is_global(job) else _of(name_of_target, PARTITION_PATH)).alias(PARTITION_PATH),
        sql.lit(int(change)).cast("tinyint").alias(CHANGE),
        *columns,
    )


def _mark(source: DataFrame) -> str:
    """With what the names of columns begin that a merge adds: as many `#` as no column of the source begins with.

    A column of a table begins with no `#`: its name is one of Avro.
    """
    mark = "#"
    while any(name.startswith(mark) for name in source.columns):
        mark += "#"
    return mark


def _chosen_clause(source: DataFrame) -> str:
    """The column with the number of the clause that is chosen for a row."""
    return f"{_mark(source)}clause"


def _evaluated(rows: DataFrame, values: Mapping[str, Column], prefix: str) -> tuple[DataFrame, dict[str, Column]]:
    """The rows with computed values as columns of their own, and these columns.

    `prefix`: no column of the rows begins with it (`_mark`).

    What is made by chance is made once then, however often `fitting` looks at it: Spark evaluates an expression again
    wherever it stands.
    """
    names = {name: f"{prefix} {name}" for name in values}
    rows = rows.withColumns({names[name]: value for name, value in values.items()}) if values else rows
    return rows, {name: _of("", added) for name, added in names.items()}


def as_column(value: Any) -> Column:
    """A value or condition as a Column: SQL text is parsed, and other Python values are literals."""
    if isinstance(value, Column):
        return value
    return sql.expr(value) if isinstance(value, str) else sql.lit(value)


# --- by the record key ---------------------------------------------------------------------------------------------


def _is_upsert(job: WriteJob, plan: MergePlan, source: DataFrame, pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether the index can match the rows, and all values are those of the source."""
    return stores_rows_of_source(job, plan, pairs, _storable(source), source.columns) and all(
        _is_of_source(plan, source, clause.condition) for clause in plan.clauses
    )


def _storable(source: DataFrame) -> pa.Schema:
    """The columns of a source whose types a Hudi table has. Others, as that of a mere NULL, are never compared."""
    found = []
    for field in source.schema.fields:
        with suppress(SchemaMismatchError):
            found.append(arrow_schema(StructType([field])).field(0))
    return pa.schema(found)


def _is_of_source(plan: MergePlan, source: DataFrame, condition: Any) -> bool:
    """Whether Spark resolves a condition with the columns of the source alone."""
    if condition is None:
        return True
    named = source.alias(plan.source) if plan.source else source
    return isinstance(condition, str) and resolves(named, [condition])


def _by_record(job: WriteJob, plan: MergePlan, source: DataFrame, pairs: Sequence[tuple[str, str]]) -> DataFrame:
    rows = source.alias(plan.source) if plan.source else source
    stored = _clause_number(plan.matched, 0)
    absent = _clause_number(plan.not_matched, 0)
    # Null equals nothing, so such a row is matched by none.
    comparable = reduce(and_, (_of(plan.source, other).isNotNull() for _, other in pairs))
    mark = _mark(source)
    does_name, adds_name = f"{mark}stored", f"{mark}absent"
    rows = rows.withColumn(does_name, sql.when(comparable, stored)).withColumn(adds_name, absent)
    deletes = [number for number, clause in enumerate(plan.matched) if isinstance(clause, Delete)]
    does, adds = sql.col(does_name).isNotNull(), sql.col(adds_name).isNotNull()
    is_delete = sql.col(does_name).isin(deletes) if deletes else sql.lit(False)
    code: Any = sql
    for applies, change in changes_by_record(does, is_delete, adds, comparable):
        code = code.when(applies, int(change))
    fit, find = fitting(rows), column_finder(source.columns)
    return (
        rows.withColumn(CHANGE, code.cast("tinyint"))
        .where(sql.col(CHANGE).isNotNull())
        .select(
            sql.lit(None).cast("string").alias(RECORD_KEY),
            sql.lit(None).cast("string").alias(PARTITION_PATH),
            sql.col(CHANGE),
            *[fit(_of(plan.source, find(name) or name), kind, name).alias(name) for name, kind in _types(job).items()],
        )
    )


# --- by a join -----------------------------------------------------------------------------------------------------


def _joined_changes(job: WriteJob, plan: MergePlan, source: DataFrame, target: DataFrame) -> DataFrame:
    """The changes of the rows that the join gives, each by the first clause of its kind whose condition holds.

    Conditions and values are evaluated after the join, so only for the rows that their clause is for.
    """
    mark = _mark(source)
    in_target, in_source, chosen = f"{mark}in_target", f"{mark}in_source", _chosen_clause(source)
    left, right = _sides(plan, target.withColumn(in_target, sql.lit(True)), source.withColumn(in_source, sql.lit(True)))
    joined = left.join(right, _on(plan), _join_type(plan))
    of_target, of_source = sql.col(in_target).isNotNull(), sql.col(in_source).isNotNull()
    kinds = [
        (plan.matched, of_target & of_source, ""),
        (plan.not_matched, of_source & ~of_target, plan.source),
        (plan.not_matched_by_source, of_target & ~of_source, plan.target),
    ]
    numbered, first = [], 0
    for clauses, applies, side in kinds:
        numbered.append((first, clauses, applies, side))
        first += len(clauses)
    _check_sides(plan, left, right)
    if _are_clear(plan, joined):
        number = sql.lit(None).cast("int")
        for first, clauses, applies, _ in numbered:
            if clauses:
                number = sql.when(applies, _clause_number(clauses, first)).otherwise(number)
        return _chosen(job, plan, source, joined.withColumn(chosen, number))
    if sum(bool(clauses) for _, clauses, _, _ in numbered) > 1 and not source.is_cached:
        source.persist()  # each part evaluates it
    parts = []
    for first, clauses, applies, side in numbered:
        if clauses:
            rows = joined.where(applies)
            rows = rows.select(f"{quoted(side)}.*") if side else rows
            number = _clause_number(clauses, first)
            parts.append(_chosen(job, plan, source, rows.withColumn(chosen, number), first, len(clauses), side))
    return reduce(DataFrame.unionByName, parts)


def _check_sides(plan: MergePlan, left: DataFrame, right: DataFrame) -> None:
    """Let Spark resolve the clauses of rows that have one side: they see its columns alone."""
    for rows, texts in ((right, _texts(plan.not_matched)), (left, _texts(plan.not_matched_by_source))):
        if texts:
            _ = rows.select(*map(sql.expr, texts)).schema


def _are_clear(plan: MergePlan, joined: DataFrame) -> bool:
    """Whether clauses of rows that have one side mean the same beside the columns of the other side.

    A name without a side is not clear where both sides have a column of that name.
    """
    texts = [*_texts(plan.not_matched), *_texts(plan.not_matched_by_source)]
    return not texts or not (plan.source and plan.target) or resolves(joined, texts)


def _texts(clauses: Sequence[Clause]) -> list[str]:
    """The conditions and values of clauses that are SQL texts."""
    given = [
        value
        for clause in clauses
        for value in (clause.condition, *(() if isinstance(clause, Delete) else (clause.values or {}).values()))
    ]
    return [value for value in given if isinstance(value, str)]


def _chosen(
    job: WriteJob,
    plan: MergePlan,
    source: DataFrame,
    rows: DataFrame,
    first: int = 0,
    count: int | None = None,
    side: str = "",
) -> DataFrame:
    """The changes of rows with the numbers of their clauses; of some clauses, where the rows have one `side` alone."""
    clauses = list(plan.clauses[first:] if count is None else plan.clauses[first : first + count])
    has_target = side in ("", plan.target)
    key = _of(plan.target, RECORD_KEY) if has_target else sql.lit(None).cast("string")
    path = _of(plan.target, PARTITION_PATH) if has_target and not is_global(job) else sql.lit(None).cast("string")
    mark, chosen = _mark(source), sql.col(_chosen_clause(source))
    rows = rows.where(chosen.isNotNull())
    for number, clause in enumerate(clauses, first):
        if not isinstance(clause, Delete):
            rows, values = _evaluated(rows, _computed_values(clause, chosen == number), f"{mark}{number}")
            clauses[number - first] = replace(clause, values={**(clause.values or {}), **values})
    fit, by_clause = fitting(rows), partial(_by_clause, chosen, first)
    return rows.select(
        key.alias(RECORD_KEY),
        path.alias(PARTITION_PATH),
        by_clause([sql.lit(int(_CODES[type(clause)])) for clause in clauses]).cast("tinyint").alias(CHANGE),
        *[
            by_clause([_value(job, plan, clause, name, kind, source, fit) for clause in clauses]).alias(name)
            for name, kind in _types(job).items()
        ],
    )


def _computed_values(clause: Update | Insert, applies: Column) -> dict[str, Column]:
    """The values of a clause that are no columns of the source, for the rows of the clause alone."""
    return {
        name: sql.when(applies, as_column(value))
        for name, value in (clause.values or {}).items()
        if not isinstance(value, OfSource)
    }


def _on(plan: MergePlan) -> Column:
    pairs = equalities(plan)
    if pairs is not None and not (isinstance(plan.on, str) and "." in plan.on):
        return reduce(and_, (_of(plan.target, target) == _of(plan.source, other) for target, other in pairs))
    if not isinstance(plan.on, str | Column):
        raise ConfigError("ON must be SQL text, a Column, or a list of names of columns", given=type(plan.on).__name__)
    return as_column(plan.on)


def _join_type(plan: MergePlan) -> str:
    if plan.not_matched and plan.not_matched_by_source:
        return "full"
    if plan.not_matched:
        return "right"
    return "left" if plan.not_matched_by_source else "inner"


def _clause_number(clauses: Sequence[Clause], first: int) -> Column:
    """The number of the first clause whose condition holds, null where none does."""
    number = sql.lit(None).cast("int")
    for at, clause in reversed(list(enumerate(clauses, first))):
        if clause.condition is None:
            number = sql.lit(at)
        else:
            number = sql.when(as_column(clause.condition), at).otherwise(number)
    return number


def _by_clause(chosen: Column, first: int, values: Sequence[Column]) -> Column:
    """The value of the chosen clause. `chosen`: the column with its number; `first`: the number of the first one."""
    found = sql.when(chosen == first, values[0])
    for number, value in enumerate(values[1:], first + 1):
        found = found.when(chosen == number, value)
    return found


def _value(
    job: WriteJob, plan: MergePlan, clause: Clause, name: str, kind: DataType, source: DataFrame, fit: Fit
) -> Column:
    """What a clause puts into a column, as its type."""
    stored = _of(plan.target, name)
    if isinstance(clause, Delete):
        if name in job.combining_rules.ordering_fields and clause in plan.matched:
            # Of several rows of the source about one record, the ordering values of the source decide.
            found = column_finder(source.columns)(name)
            if found is not None:
                return fit(_of_source(plan, source, found), kind, name)
        return stored if is_kept(job, name) else sql.lit(None).cast(kind)
    value = (clause.values or {}).get(name)
    if value is None and name not in (clause.values or {}):
        return stored if isinstance(clause, Update) else sql.lit(None).cast(kind)
    return fit(_of_source(plan, source, value.name) if isinstance(value, OfSource) else as_column(value), kind, name)


def _of_source(plan: MergePlan, source: DataFrame, name: str) -> Column:
    """A column of the source; of a source without a name, by the DataFrame itself."""
    return _of(plan.source, name) if plan.source else source[quoted(name)]


def _of(side: str, name: str) -> Column:
    return sql.col(f"{quoted(side)}.{quoted(name)}" if side else quoted(name))


def _types(job: WriteJob) -> dict[str, DataType]:
    return {field.name: field.dataType for field in spark_schema(job.schema.arrow).fields}


def resolves(rows: DataFrame, texts: Sequence[str]) -> bool:
    """Whether Spark resolves SQL expressions with the columns of these rows. Cost: one analysis, no job."""
    try:
        with unlogged():
            _ = rows.select(*map(sql.expr, texts)).schema
    except PySparkException:
        return False
    return True
