"""The plan of a merge, as a value: the same under the builder of Python, MERGE of SQL, and `DataFrame.mergeInto`.

Conditions and values are texts, columns or expressions of the engine that evaluates them; the plan does not look into
them. The clauses of a kind are tried in order, and the first whose condition holds decides.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

import pyarrow as pa

from pyhudi.config.table_config import TableConfig
from pyhudi.errors import ConfigError, InvalidRequestError, UnsupportedFeatureError
from pyhudi.format.keys.generator_types import PartitionFieldKind
from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.io.log.records import IS_DELETED
from pyhudi.tasks.row_changes import Change, ChangeKeys
from pyhudi.write.job import WriteJob
from pyhudi.write.operations import RowsRead

Flags = TypeVar("Flags", bound=Any)
TARGET: Final = "target"
SOURCE: Final = "source"


@dataclass(frozen=True, slots=True, eq=False)  # conditions and values need not compare
class Update:
    """The row gets these values; the other columns keep theirs. `values`: None for all columns, from the source's."""

    values: Mapping[str, Any] | None
    condition: Any = None


@dataclass(frozen=True, slots=True, eq=False)  # conditions and values need not compare
class Delete:
    """The row is deleted."""

    condition: Any = None


@dataclass(frozen=True, slots=True, eq=False)  # conditions and values need not compare
class Insert:
    """A row with these values, and null in the other columns. `values`: None for all columns, from the source's."""

    values: Mapping[str, Any] | None
    condition: Any = None


Clause = Update | Delete | Insert


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """A merge. `target` and `source`: the names by which conditions and values call the two sides."""

    on: Any
    matched: tuple[Update | Delete, ...] = ()
    not_matched: tuple[Insert, ...] = ()
    not_matched_by_source: tuple[Update | Delete, ...] = ()
    target: str = TARGET
    source: str = SOURCE

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """All clauses, in the order of their numbers."""
        return (*self.matched, *self.not_matched, *self.not_matched_by_source)


def check_plan(plan: MergePlan) -> None:
    """Raise `InvalidRequestError` for a plan without clauses, or with one that can never be reached."""
    if not plan.clauses:
        raise InvalidRequestError(
            "a merge needs at least one clause, such as when_matched_update_all() or when_not_matched_insert_all()"
        )
    for clauses in (plan.matched, plan.not_matched, plan.not_matched_by_source):
        if any(clause.condition is None for clause in clauses[:-1]):
            raise InvalidRequestError(
                "a clause without a condition applies always, so the clauses of its kind after it never do: give it a "
                "condition, or make it the last one"
            )
    for clause in plan.not_matched_by_source:
        if isinstance(clause, Update) and clause.values is None:
            raise InvalidRequestError("a row that no row of the source matches cannot get all columns of the source")


def named_columns(
    plan: MergePlan, table: pa.Schema, source: Sequence[str], *, case_sensitive: bool = False
) -> MergePlan:
    """The plan with the table's spelling of its columns, and with values for all columns where it asks for all.

    A text that is nothing but a column of the source, such as `source.name`, becomes an `OfSource`: so a merge that
    names all columns is the same as one that asks for all. Names match regardless of letter case, unless names of the
    source are `case_sensitive`; a table has no columns that differ in it alone. Raises `ConfigError` for a column that
    the table does not have, or that the source lacks though all are asked for, or that is given twice.
    """
    fold = str if case_sensitive else str.lower
    counts = Counter(map(fold, source))
    clear = {fold(name): name for name in source if counts[fold(name)] == 1}
    find = clear.get if case_sensitive else column_finder(source)
    of_source = {name: find(name) for name in table.names}

    def of_side(value: Any) -> Any:
        name = _column_of_side(plan.source, value)
        return value if name is None or fold(name) not in clear else OfSource(clear[fold(name)])

    def named(clause: Clause, sees_source: bool) -> Clause:
        if isinstance(clause, Delete):
            return clause
        if clause.values is None:
            return replace(clause, values=_all_values(of_source, plan.source))
        values = assigned(clause.values, table)
        return replace(clause, values={name: of_side(v) for name, v in values.items()} if sees_source else values)

    def each(clauses: Iterable[Any], *, sees_source: bool = True) -> tuple[Any, ...]:
        return tuple(named(clause, sees_source) for clause in clauses)

    return replace(
        plan,
        matched=each(plan.matched),
        not_matched=each(plan.not_matched),
        not_matched_by_source=each(plan.not_matched_by_source, sees_source=False),
    )


def column_finder(names: Iterable[str]) -> Callable[[str], str | None]:
    """What finds the column that a name means: the one spelled so, else the only one that differs in letter case."""
    spelled = set(names)
    loose: dict[str, str | None] = {}
    for name in spelled:
        loose[name.lower()] = None if name.lower() in loose else name
    return lambda wanted: wanted if wanted in spelled else loose.get(wanted.lower())


def assigned(values: Mapping[str, Any], table: pa.Schema) -> dict[str, Any]:
    """The values by the table's own spelling of their columns. Errors: see `named_columns`."""
    spelled = {name.lower(): name for name in table.names}
    found: dict[str, Any] = {}
    for given, value in values.items():
        name = spelled.get(given.lower())
        if name is None or name in META_COLUMNS:
            close = difflib.get_close_matches(given, table.names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(table.names)}"
            raise ConfigError(f"the table has no column {given!r}; {hint}", column=given)
        if name in found:
            raise ConfigError(f"column {name!r} is given two values", column=name)
        found[name] = value
    if not found:
        raise ConfigError("a clause must give a value to at least one column")
    return found


@dataclass(frozen=True, slots=True)
class OfSource:
    """The value of a column of the source, by its name there."""

    name: str


def _all_values(of_source: Mapping[str, str | None], source: str) -> dict[str, Any]:
    missing = [name for name, found in of_source.items() if found is None and name != IS_DELETED]
    if missing:
        raise ConfigError(
            f"the source {source!r} lacks columns of the table, which all are asked for: {', '.join(missing)}; name "
            "the columns that get values",
            columns=missing,
        )
    return {name: None if found is None else OfSource(found) for name, found in of_source.items()}


def _column_of_side(side: str, value: Any) -> str | None:
    """The name of a column of this side, where a text is nothing else."""
    found = _COLUMN.fullmatch(value) if isinstance(value, str) else None
    return _bare(found[2]) if found is not None and _bare(found[1]).lower() == side.lower() else None


# --- ON ------------------------------------------------------------------------------------------------------------

_NAME: Final = r"(?:`[^`]+`|\w+)"
_EQUALITY: Final = re.compile(rf"\(*\s*({_NAME})\.({_NAME})\s*==?\s*({_NAME})\.({_NAME})\s*\)*\s*", re.UNICODE)
_COLUMN: Final = re.compile(r"\s*(`[^`]+`|[^\W\d]\w*)\.(`[^`]+`|[^\W\d]\w*)\s*", re.UNICODE)
_AND: Final = re.compile(r"\bAND\b", re.IGNORECASE)


def equalities(plan: MergePlan) -> tuple[tuple[str, str], ...] | None:
    """The pairs of (column of the target, column of the source) that ON compares; None where ON is anything else.

    A list of names stands for columns that are called the same on both sides.
    """
    if isinstance(plan.on, list | tuple):
        return tuple((str(name), str(name)) for name in plan.on)
    if not isinstance(plan.on, str):
        return None
    if re.fullmatch(_NAME, plan.on.strip()):
        return ((_bare(plan.on),) * 2,)
    pairs = []
    for part in _AND.split(plan.on):
        found = _EQUALITY.fullmatch(part.strip())
        if found is None:
            return None
        left, one, right, other = (_bare(text) for text in found.groups())
        sides = {left.lower(): one, right.lower(): other}
        if set(sides) != {plan.target.lower(), plan.source.lower()}:
            return None
        pairs.append((sides[plan.target.lower()], sides[plan.source.lower()]))
    return tuple(pairs)


def _bare(name: str) -> str:
    return name.strip().strip("`")


# --- what the plan means for a table ---------------------------------------------------------------------------------


def change_keys(job: WriteJob, given: Iterable[str], *, is_merge: bool) -> ChangeKeys:
    """How rows of stored records get their keys, where updates give values to these columns."""
    tops = {name.lower() for name in given}

    def is_given(fields: Iterable[str]) -> bool:
        return any(name.partition(".")[0].lower() in tops for name in fields)

    return ChangeKeys(
        rekeys=is_given(job.keys.record_key_fields),
        moves=not is_global(job) and is_given(job.keys.partition_field_names),
        is_merge=is_merge,
    )


def is_global(job: WriteJob) -> bool:
    """Whether the index finds a record in any partition, and decides itself whether it moves."""
    return job.config.index.index_type.is_global


def updated_columns(plan: MergePlan) -> frozenset[str]:
    """The columns that updates of the plan give values to."""
    updates = (clause for clause in plan.clauses if isinstance(clause, Update))
    return frozenset(name for clause in updates for name in clause.values or ())


def names_record(job: WriteJob, pairs: Sequence[tuple[str, str]], source: pa.Schema) -> bool:
    """Whether these equalities are those of the record key and the partition path.

    Then the index finds the row of the target, which need not be read. Only columns of the same name and type count,
    and types whose text is one with their value.
    """
    table = job.schema.arrow
    if job.keys.has_auto_keys or any(
        field.kind is not PartitionFieldKind.SIMPLE for field in job.keys.partition_fields
    ):
        return False
    needed = {*job.keys.record_key_fields, *(() if is_global(job) else job.keys.partition_field_names)}
    if {target.lower() for target, _ in pairs} != {name.lower() for name in needed}:
        return False
    of_table, of_source = column_finder(table.names), column_finder(source.names)

    def is_same_column(target: str, other: str) -> bool:
        name, found = of_table(target), of_source(other)
        if name is None or found is None or found != of_source(name):
            return False
        kind = table.field(name).type
        return bool(source.field(found).type == kind) and has_exact_text(kind)

    return all(is_same_column(target, other) for target, other in pairs)


def stores_rows_of_source(
    job: WriteJob, plan: MergePlan, pairs: Sequence[tuple[str, str]], source: pa.Schema, names: Iterable[str]
) -> bool:
    """Whether the index can match the rows, and each column gets the value of the source's column of its name.

    The caller checks that no condition is of the target. `source`: its columns of types that tables have;
    `names`: those of all its columns.
    """
    find = column_finder(names)
    own = {name: find(name) for name in job.schema.arrow.names}
    stores_all = all(
        isinstance(clause, Delete)
        or (
            len(clause.values or ()) == len(own)
            and all(
                isinstance(value, OfSource) and value.name == own[name] for name, value in (clause.values or {}).items()
            )
        )
        for clause in plan.clauses
    )
    has_all = None not in own.values()
    return not plan.not_matched_by_source and stores_all and has_all and names_record(job, pairs, source)


def changes_by_record(stored: Flags, deletes: Flags, absent: Flags, comparable: Flags) -> list[tuple[Flags, Change]]:
    """What rows of the source become whose match the index finds: the first of these whose condition holds.

    Masks of numpy or columns of Spark: whether a clause is for the row if its record is `stored`, and `deletes` it;
    whether one is for it if the record is `absent`; and whether no column that ON compares is null.
    """
    return [
        (stored & deletes & absent, Change.DELETE_OR_INSERT),
        (stored & deletes, Change.DELETE),
        (stored & absent, Change.UPSERT),
        (stored, Change.UPDATE),
        (absent & comparable, Change.INSERT_IF_ABSENT),
        (absent, Change.INSERT),
    ]


def is_kept(job: WriteJob, name: str) -> bool:
    """Whether the change of a deleted row needs a column: for its key and path, or because it may not be null."""
    fields = (*job.keys.record_key_fields, *job.keys.partition_field_names)
    return name in {field.partition(".")[0] for field in fields} or not job.schema.arrow.field(name).nullable


def has_exact_text(kind: pa.DataType) -> bool:
    """Whether a type's values are equal exactly when their texts are, and have an order."""
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_date(kind))


def partial_columns(job: WriteJob, plan: MergePlan) -> tuple[str, ...] | None:
    """The columns that all updates of the plan give values to, if logs can have these alone; None if they cannot.

    Only logs of version 8 and later know partial updates. Readers need the ordering values of an update. Where columns
    have ids, JVM Hudi takes a partial update for a new row, and refuses to write one.
    """
    updated = updated_columns(plan)
    table = job.schema.arrow.names
    logs_know = (
        job.is_merge_on_read
        and job.table.version.has_completion_times
        and job.rules.selects
        and not job.table.config.cdc_enabled
        and not is_global(job)
        and job.schema.columns is None
    )
    if not job.config.input.partial_updates_of_merges or not logs_know:
        return None
    if not updated or len(updated) == len(table) or not updated.issuperset(job.rules.ordering_fields):
        return None
    return tuple(name for name in table if name in updated)


def asks_whether_stored(plan: MergePlan, keys: ChangeKeys, *, is_joined: bool) -> bool:
    """Whether what becomes of a change depends on whether its record is there.

    Of joined rows the stored ones are known to be there, and new ones must not be. Otherwise the index decides, unless
    every row is an upsert.
    """
    if is_joined:
        return bool(plan.not_matched) or keys.moves
    kinds = [type(clause) for clause in plan.clauses if clause.condition is None]
    return kinds != [Update, Insert] or len(plan.clauses) != len(kinds)


def expressions_of(plan: MergePlan) -> tuple[Any, ...]:
    """The conditions and values of a merge."""
    clauses: tuple[Clause, ...] = (*plan.matched, *plan.not_matched, *plan.not_matched_by_source)
    values = (value for clause in clauses if not isinstance(clause, Delete) for value in (clause.values or {}).values())
    return (plan.on, *(clause.condition for clause in clauses), *values)


def rows_read(job: WriteJob, plan: MergePlan) -> RowsRead:
    """The rows of the table on which the changes of a joined merge depend."""
    if not plan.not_matched:
        return RowsRead.CHANGED
    fields = job.keys.partition_fields
    compared = {target.lower() for target, _ in equalities(plan) or ()}
    is_pinned = all(field.kind is PartitionFieldKind.SIMPLE and field.name.lower() in compared for field in fields)
    return RowsRead.CHANGED if is_pinned else RowsRead.ALL


def check_has_keys(config: TableConfig) -> None:
    """Raise `UnsupportedFeatureError` for a table whose rows cannot be told apart by their stored keys."""
    if not config.populate_meta_fields:
        raise UnsupportedFeatureError(
            "a table without meta columns (hoodie.populate.meta.fields=false) does not store the keys of its rows, so "
            "it takes no merge, update, or deletion by condition",
            table=config.name,
        )
