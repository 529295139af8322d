"""Transformers: what becomes of the rows of a source before they are written."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa

from pyhudi.config.option import options_of
from pyhudi.config.options_streamer import TransformerOptions
from pyhudi.engine.inputs import opened
from pyhudi.errors import ConfigError, InvalidRequestError, UnsupportedFeatureError
from pyhudi.streamer.named_files import text_of_file
from pyhudi.streamer.schemas import group_of

Transform: TypeAlias = Callable[[Any], Any]
"""A function of rows that gives rows: of an Arrow table Arrow of any library, on Spark of a DataFrame a DataFrame."""
Transformers: TypeAlias = str | Transform | Sequence[str | Transform] | None
MadeWithout: TypeAlias = Callable[[tuple[Transform, ...], pa.Schema, tuple[str, ...]], tuple[str, ...] | None]
"""Which of these columns transformers make of rows without them; None where they cannot do without."""
SOURCE: Final = "<SRC>"
"""What stands for the rows of the batch in a query."""
_VIEW: Final = "source_rows"
ANSWERS_MAX: Final = 4096
"""How many answers of a `MadeWithout` are remembered."""
_SQL, _FILE, _FLAT = "SqlQueryBasedTransformer", "SqlFileBasedTransformer", "FlatteningTransformer"


@dataclass(frozen=True, eq=False, slots=True)
class Query:
    """The transformer of a query, in which `<SRC>` stands for the rows of the batch: by DuckDB, or by Spark."""

    text: str

    def __call__(self, rows: pa.Table) -> pa.Table:
        """The rows that DuckDB gives. Raises `InvalidRequestError` where the query fails."""
        return _queried(self.text.replace(SOURCE, _VIEW), rows)


@dataclass(frozen=True, eq=False, slots=True)
class RowWise:
    """A transformer that makes the rows of each row alone, so that tasks of Spark run it over pieces of a batch.

    `function` takes an Arrow table and gives Arrow, whose columns are the same whatever rows it is given.
    """

    function: Callable[[pa.Table], Any]

    def __call__(self, rows: pa.Table) -> Any:
        """What the function gives."""
        return self.function(rows)


def transforms_of(given: Transformers, options: Mapping[str, str]) -> tuple[Transform, ...]:
    """The transformers with these names, in their order, and functions; each of them is hashable.

    A name may be `id:name`: then an option that ends in `.id` is for this transformer alone, and counts over the one
    without it. Raises `ConfigError` where their options are missing, or ids are not those of a chain, and
    `UnsupportedFeatureError` for others. Cost: a read of each file with SQL.
    """
    return tuple(
        _hashable(transformer) if callable(transformer) else _named(*_id_and_name(transformer), options)
        for transformer in _chain(given)
    )


def _hashable(transform: Transform) -> Transform:
    return transform if isinstance(transform, RowWise) else functools.partial(transform)


def check_can_run(transforms: Iterable[Transform]) -> None:
    """Raise `UnsupportedFeatureError` if this process cannot run them: for SQL without DuckDB."""
    if any(isinstance(transform, Query) for transform in transforms):
        try:
            import duckdb  # noqa: F401, PLC0415 - few streamers need it
        except ImportError as error:
            raise UnsupportedFeatureError("SQL in a transformer needs DuckDB: pip install 'pyhudi[duckdb]'") from error


def options_by_id(given: Transformers, names: Iterable[str]) -> frozenset[str]:
    """Which of these options are for single transformers of a chain, by their ids. Raises as `transforms_of`."""
    ends = tuple(f".{_id_and_name(name)[0]}" for name in _chain(given) if isinstance(name, str) and ":" in name)
    own = {spelling for _, option in options_of(TransformerOptions) for spelling in option.spellings}
    return frozenset(name for name in names for end in ends if name.endswith(end) and name.removesuffix(end) in own)


def _chain(given: Transformers) -> Sequence[str | Transform]:
    """Transformers one by one. Raises `ConfigError` unless all names have ids, each another one, or none has."""
    if given is None:
        return ()
    listed = [given] if callable(given) else given.split(",") if isinstance(given, str) else list(given)
    names = [name for name in listed if isinstance(name, str)]
    ids = [_id_and_name(name)[0] for name in names if ":" in name]
    is_chain = len(ids) == len(names) == len(set(ids)) and all(number and ":" not in number for number in ids)
    if ids and not is_chain:
        raise ConfigError(
            "of several transformers either all names have an id before a colon, each another one, or none has",
            transformer_class=names,
        )
    return listed


def _id_and_name(given: str) -> tuple[str, str]:
    """The id of a transformer, empty where it has none, and its name."""
    before, _, name = given.strip().rpartition(":")
    return before.strip(), name.strip()


def _with_id(number: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options of the transformer with an id: those that end in it count over the others."""
    end = f".{number}"
    return {**options, **{name.removesuffix(end): text for name, text in options.items() if name.endswith(end)}}


def _named(number: str, name: str, options: Mapping[str, str]) -> Transform:
    given = group_of(TransformerOptions, _with_id(number, options) if number else options)
    kind = name.rpartition(".")[2]
    if kind == _FLAT:
        return RowWise(flattened)
    if kind == _SQL:
        if given.sql is None:
            raise ConfigError(f"{kind} needs hoodie.streamer.transformer.sql")
        return _query(given.sql)
    if kind == _FILE:
        if given.sql_file is None:
            raise ConfigError(f"{kind} needs hoodie.streamer.transformer.sql.file")
        return _query(text_of_file(given.sql_file, options))
    raise UnsupportedFeatureError(
        f"the transformers are {_SQL}, {_FILE} and {_FLAT}, and functions of Python", transformer=name
    )


def _query(text: str) -> Query:
    query = text.strip().rstrip(";")
    if SOURCE not in query or ";" in query:
        raise ConfigError(f"the SQL of a transformer is one query, which reads {SOURCE}", sql=text)
    return Query(query)


def _queried(query: str, rows: pa.Table) -> pa.Table:
    import duckdb  # noqa: PLC0415 - as above

    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register(_VIEW, rows)
        try:
            return pa.RecordBatchReader.from_stream(connection.sql(query)).read_all()
        except duckdb.Error as error:
            raise InvalidRequestError(f"the SQL of the transformer failed: {error}", sql=query) from error


def flattened(rows: pa.Table) -> pa.Table:
    """The rows with a column for each field of a struct, named `struct_field`; lists and maps stay.

    Raises `InvalidRequestError` where two columns would have one name.
    """
    while any(pa.types.is_struct(field.type) for field in rows.schema):
        names = [
            f"{field.name}_{inner.name}" if inner is not None else field.name
            for field in rows.schema
            for inner in (field.type.fields if pa.types.is_struct(field.type) else [None])
        ]
        rows = rows.flatten().rename_columns(names)
    twice = sorted({name for name in rows.column_names if rows.column_names.count(name) > 1})
    if twice:
        raise InvalidRequestError("flattening gives two columns one name", columns=twice)
    return rows


def transformed(rows: pa.Table, transforms: Sequence[Transform]) -> pa.Table:
    """The rows after all transformers, one after the other."""
    for transform in transforms:
        found = opened(transform(rows))
        if isinstance(found, pa.RecordBatch):
            found = pa.Table.from_batches([found])
        rows = found.read_all() if isinstance(found, pa.RecordBatchReader) else found
        if not isinstance(rows, pa.Table):
            raise InvalidRequestError("a transformer must give rows", given=type(rows).__name__)
    return rows


def derived_columns(
    schema: pa.Schema, names: Sequence[str], transforms: Sequence[Transform], made_without: MadeWithout
) -> list[str]:
    """The columns with these names that the transformers make of rows without being given them.

    Cost: `made_without` once, or once a name where they ask for some of these columns.
    """
    if not names:
        return []
    chain = tuple(transforms)
    made = made_without(chain, schema, tuple(names))
    if made is not None:
        return list(made)
    return [name for name in names if made_without(chain, schema, (name,))]


@functools.lru_cache(maxsize=ANSWERS_MAX)
def made_without(
    transforms: tuple[Transform, ...], schema: pa.Schema, names: tuple[str, ...]
) -> tuple[str, ...] | None:
    """See `MadeWithout`. Cost: a run of the transformers over no rows; none where the same was asked before."""
    try:
        found = transformed(schema.empty_table().drop_columns(list(names)), transforms)
    except Exception:  # noqa: BLE001  # functions of users raise anything, as for a column that is missing
        return None
    return tuple(name for name in names if name in found.column_names)
