"""JdbcSource: the rows of a table of a database, all of them or those with newer values of a column.

JVM Hudi reads the rows whose column is greater than the checkpoint. It loses a row that is committed later with the
value of the checkpoint, and with a limit the rows of the last value that it cuts off. Here a batch has all rows
of its last value, and the next one begins with them again, so that the operation must be one that writes a row once.
"""

# ruff: noqa: S608 - the table and the column are the user's own, and values are quoted
from __future__ import annotations

import functools
import hashlib
import json
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from pyhudi.config.options_streamer_databases import JdbcOptions, JdbcSchemaOptions
from pyhudi.errors import ConfigError, SchemaMismatchError, SourceError, UnsupportedFeatureError
from pyhudi.format.schema.avro_arrow import normalise
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.named_files import text_of_file
from pyhudi.streamer.sources.protocol import Pull, Rows

_COLUMN: Final = re.compile(r'[A-Za-z_][\w$]*|"[^"]+"')
_JDBC: Final = "jdbc:"
_POSTGRESQL, _SQLITE = "postgresql", "sqlite"
_MODIFIER: Final = b"POSTGRESQL:typmod"
_MODIFIER_OFFSET: Final = 4
_DIGITS_MAX: Final = 38


@dataclass(frozen=True, slots=True)
class Database:
    """A database by the driver's address, which may hold a password. `kind`: postgresql or sqlite."""

    kind: str
    address: str = field(repr=False)

    @contextmanager
    def cursor(self) -> Iterator[Any]:
        """A cursor whose statements see one state of the database. Raises `SourceError` where it does not answer."""
        driver = _driver(self.kind)
        try:
            with driver.connect(self.address) as connection, connection.cursor() as cursor:
                if self.kind == _POSTGRESQL:
                    cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
                    cursor.execute("SET LOCAL TIME ZONE 'UTC'")
                yield cursor
        except (driver.Error, pa.ArrowException, OSError) as error:  # while rows come, errors are those of Arrow
            raise SourceError(f"the database does not answer as it should: {error}", database=self.kind) from error


def _driver(kind: str) -> Any:
    try:
        if kind == _POSTGRESQL:
            import adbc_driver_postgresql.dbapi as driver  # noqa: PLC0415 - an extra
        else:
            import adbc_driver_sqlite.dbapi as driver  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UnsupportedFeatureError(
            "JdbcSource needs the ADBC driver of the database: pip install 'pyhudi[databases]'", database=kind
        ) from error
    return driver


@dataclass(frozen=True, slots=True)
class DatabaseSource:
    """A table of a database, or a query in parentheses with a name behind it."""

    database: Database
    table: str
    column: str | None

    def pull(self, after: Checkpoint, *, limit: int | None) -> Pull | None:
        """See `Source.pull`; a limit is one of rows, and a batch has all rows of its last value.

        Cost: a query for a whole table; otherwise two that use an index of the column, and one with a limit.
        """
        if self.column is None:
            return Pull(reached=Checkpoint(), read=functools.partial(self._rows, ""), items=1)
        self._check(after)
        known = "" if after.text is None else f" WHERE {self.column} >= {_literal(after.text)}"
        with self.database.cursor() as cursor:
            end = self._end(cursor, after.text, limit)
            if end is None:
                return None
            until = f"{self.column} <= {_literal(end)}"
            # The first batch also has the rows in which the column is null; they are not read again.
            where = f" WHERE {until} OR {self.column} IS NULL" if after.text is None else f"{known} AND {until}"
            last = _value(cursor, f"SELECT count(*) FROM {self.table} WHERE {self.column} = {_literal(end)}")
            if not last and end != after.text:
                raise UnsupportedFeatureError(
                    f"the largest value of {self.column} is not equal to its own text, so that batches could not begin "
                    "after it: read the table as a whole, or name a column that the database compares with texts",
                    value=end,
                )
            count = _value(cursor, f"SELECT count(*) FROM {self.table}{where}")
        state = json.dumps({"checkpoint": end, "rows": int(last), "of": self._of}, separators=(",", ":"))
        if end == after.text and state == after.state:
            return None
        reached = Checkpoint(text=end, state=state)
        return Pull(reached=reached, read=functools.partial(self._rows, where), items=int(count))

    @property
    def _of(self) -> str:
        """Which values the checkpoint is one of. A digest, as a query may be long."""
        return hashlib.sha256(f"{self.column} {self.table}".encode()).hexdigest()[:16]

    def _check(self, after: Checkpoint) -> None:
        """Raise `ConfigError` for the checkpoint of another table, query or column. JVM Hudi's does not say."""
        if after.state_under("checkpoint").get("of", self._of) != self._of:
            raise ConfigError(
                "the checkpoint is that of another table, query or column, whose values say nothing of which rows are"
                " new: give the `checkpoint` to go on from, or read all rows with a new `ignore_checkpoint`",
                table=self.table,
                column=self.column,
                checkpoint=after.text,
            )

    def _end(self, cursor: Any, after: str | None, limit: int | None) -> str | None:
        """The largest value of the column that the batch has; None where there are no rows with one."""
        beyond = f"{self.column} IS NOT NULL" if after is None else f"{self.column} > {_literal(after)}"
        some = f"{self.table} WHERE {beyond}"
        if limit is not None:
            some = f"(SELECT {self.column} FROM {some} ORDER BY {self.column} LIMIT {limit}) batch"
        end = _value(cursor, f"SELECT CAST(max({self.column}) AS VARCHAR) FROM {some}")
        return after if end is None else end

    def _rows(self, where: str, wanted: pa.Schema | None, stored: pa.Schema | None) -> Rows:
        batches = self._batches(f"SELECT * FROM {self.table}{where}", wanted, stored)
        return pa.RecordBatchReader.from_batches(next(batches).schema, batches)

    def _batches(self, query: str, wanted: pa.Schema | None, stored: pa.Schema | None) -> Iterator[pa.RecordBatch]:
        """The rows of a query, a piece at a time, and before them a piece without rows."""
        with self.database.cursor() as cursor:
            cursor.execute(query)
            reader = cursor.fetch_record_batch()
            schema = _columns(reader.schema, wanted, stored)
            yield from schema.empty_table().to_batches() or [pa.RecordBatch.from_pylist([], schema)]
            for batch in reader:
                yield _converted(batch, schema)


def _literal(text: str) -> str:
    """A text in SQL. The database compares it as a value of the column's type."""
    return "'" + text.replace("'", "''") + "'"


def _value(cursor: Any, query: str) -> Any:
    cursor.execute(query)
    return cursor.fetchone()[0]


def _columns(found: pa.Schema, wanted: pa.Schema | None, stored: pa.Schema | None) -> pa.Schema:
    """The columns of rows: those that are wanted, or all, in the types of the table where it has them."""
    if wanted is not None:
        there = {*found.names}
        missing = [name for name in wanted.names if name not in there]
        if missing:
            raise ConfigError("the schema has columns that the database does not have", missing=missing)
        return wanted
    types = {} if stored is None else {column.name: column.type for column in stored}
    columns = [pa.field(column.name, types.get(column.name) or _type_of(column)) for column in found]
    return normalise(pa.schema(columns))


def _type_of(column: pa.Field) -> pa.DataType:
    """The type of a column that the driver describes by an extension of Arrow's types."""
    kind = column.type
    if not isinstance(kind, pa.BaseExtensionType):
        return kind
    if isinstance(kind, pa.UuidType):
        return pa.string()
    if isinstance(kind, pa.JsonType):
        return kind.storage_type
    # PostgreSQL: digits, and those behind the point, in the halves of a number that is 4 too large; -1 without them.
    modifier = int((column.metadata or {}).get(_MODIFIER, b"-1")) - _MODIFIER_OFFSET
    is_number = isinstance(kind, pa.OpaqueType) and kind.type_name == "numeric"
    if is_number and 0 < modifier >> 16 <= _DIGITS_MAX:
        return pa.decimal128(modifier >> 16, modifier & 0xFFFF)
    raise UnsupportedFeatureError(
        f"the type of column {column.name!r} is none of Arrow: give the columns as schema, or convert it in a query as"
        " hoodie.streamer.jdbc.table.name",
        column=column.name,
        type=str(kind),
    )


def _converted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for column in schema:
        values = batch.column(column.name)
        if isinstance(values.type, pa.UuidType) and pa.types.is_string(column.type):
            values = pa.array([None if value is None else str(value) for value in values.to_pylist()], pa.string())
        elif isinstance(values.type, pa.BaseExtensionType):
            values = values.storage
        try:
            arrays.append(values.cast(column.type))
        except pa.ArrowException as error:
            raise SchemaMismatchError(
                f"a value of column {column.name!r} does not fit its type: {error}",
                column=column.name,
                type=str(column.type),
            ) from error
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def database_source(options: JdbcOptions, *, writes_once: bool, stores: Mapping[str, str]) -> DatabaseSource:
    """The source that the options describe. `writes_once`: whether the operation writes a row that comes again once.

    Raises `ConfigError` and `UnsupportedFeatureError`. Cost: a read of the file with the password.
    """
    if options.url is None or options.table is None:
        raise ConfigError("JdbcSource needs hoodie.streamer.jdbc.url and hoodie.streamer.jdbc.table.name")
    column = None
    if options.is_incremental:
        column = options.column
        if column is None or not _COLUMN.fullmatch(column):
            raise ConfigError(
                "hoodie.streamer.jdbc.incr.pull needs a column as hoodie.streamer.jdbc.table.incr.column.name",
                given=column,
            )
        if not writes_once:
            raise ConfigError(
                "a batch of hoodie.streamer.jdbc.incr.pull has the rows of the last value again, as others may have"
                " come: use op=UPSERT, or op=INSERT with filter_dupes"
            )
    password = options.password
    if options.password_file is not None:
        password = text_of_file(options.password_file, stores).strip()
    return DatabaseSource(_database_at(options.url, options.user, password), options.table, column)


def columns_of_table(options: JdbcSchemaOptions) -> pa.Schema:
    """The columns of a table of PostgreSQL, as its rows have them in Arrow. They may be null.

    Raises `ConfigError`, `UnsupportedFeatureError` for other databases and for types that are none of Arrow, and
    `SourceError` where the database does not answer. Cost: a query without rows.
    """
    if options.url is None or options.table is None:
        raise ConfigError(
            "JdbcbasedSchemaProvider needs a database and a table:"
            " hoodie.streamer.schemaprovider.source.schema.jdbc.connection.url and .dbtable"
        )
    database = _database_at(options.url, options.user, options.password)
    if database.kind != _POSTGRESQL:
        raise UnsupportedFeatureError(
            "JdbcbasedSchemaProvider reads PostgreSQL: columns of SQLite have no types of their own",
            database=database.kind,
        )
    with database.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {options.table} WHERE false")
        return _columns(cursor.fetch_record_batch().schema, None, None)


def _database_at(url: str, user: str | None, password: str | None) -> Database:
    kind, _, rest = url.removeprefix(_JDBC).partition(":")
    if kind == _SQLITE:
        return Database(_SQLITE, rest)
    if kind != _POSTGRESQL:
        raise UnsupportedFeatureError("the databases that are read are PostgreSQL and SQLite", database=kind)
    parts = urllib.parse.urlsplit(url.removeprefix(_JDBC))
    login = parts.netloc.rpartition("@")[0]
    if user is not None:
        login = urllib.parse.quote(user, safe="")
        login += "" if password is None else f":{urllib.parse.quote(password, safe='')}"
    host = parts.netloc.rpartition("@")[2]
    address = urllib.parse.urlunsplit(parts._replace(netloc=f"{login}@{host}" if login else host))
    return Database(_POSTGRESQL, address)
