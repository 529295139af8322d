"""The wrappers of what takes names of tables in the DataFrame API: `table`, `insertInto`, `saveAsTable`, the catalog's.

`spark.readStream.table` is one of them: a stream by name is that of the folder that the catalog has.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pyspark.sql import SparkSession

from pyhudi.spark.enable import STREAM_READER_NOTES, Original, Wrapper, notes_of, refuse_unsupported, wrap, written_rows
from pyhudi.spark.reads.callbacks import original_errors
from pyhudi.sql.can_parse import can_parse


def install_names(spark: SparkSession) -> None:
    """Wrap them in this session's classes. A second call has no effect."""
    wrap(type(spark), {"table": _table})
    module = import_module(type(spark).__module__.removesuffix("session") + "readwriter")
    wrap(module.DataFrameReader, {"table": _read_table})
    wrap(module.DataFrameWriter, {"insertInto": _insert_into, "saveAsTable": _save_as_table})
    streams = import_module(type(spark).__module__.removesuffix("session") + "streaming.readwriter")
    wrap(streams.DataStreamReader, {**STREAM_READER_NOTES, "table": _stream_table})
    catalog = import_module(type(spark).__module__.removesuffix("session") + "catalog")
    wrap(catalog.Catalog, {"refreshTable": _as_statement("REFRESH TABLE"), "cacheTable": _as_statement("CACHE TABLE")})


def _table(original: Original) -> Original:
    def table(self: Any, tableName: Any) -> Any:  # noqa: N803 - Spark's own name
        with original_errors():
            rows = _read_by_name(self, tableName, {})
            return original(self, tableName) if rows is None else rows

    return table


def _read_table(original: Original) -> Original:
    def table(self: Any, tableName: Any) -> Any:  # noqa: N803 - Spark's own name
        with original_errors():
            rows = _read_by_name(_session_of(self), tableName, notes_of(self).options)
            return original(self, tableName) if rows is None else rows

    return table


def _stream_table(original: Original) -> Original:
    def table(self: Any, tableName: Any) -> Any:  # noqa: N803 - Spark's own name
        if isinstance(tableName, str) and can_parse():
            from pyhudi.sql.frames import by_name  # noqa: PLC0415 - with sqlglot

            session = _session_of(self)
            found = by_name.find(session, tableName)
            if found is not None:
                notes = notes_of(self)
                refuse_unsupported(notes, "read")
                options = by_name.options_of_read(session, found, notes.options)
                return self.format("hudi").options(**options).load(found.location)
        return original(self, tableName)

    return table


def _as_statement(words: str) -> Wrapper:
    """Run a method of the catalog as the statement that does the same, where the table is one of Hudi's.

    Spark's own method takes what it reads for files that the catalog names, and ends in an error of the JVM.
    """

    def wrapper(original: Original) -> Original:
        def method(self: Any, tableName: Any, *args: Any, **named: Any) -> Any:  # noqa: N803 - Spark's own name
            if isinstance(tableName, str) and can_parse():
                from pyhudi.sql.frames import by_name  # noqa: PLC0415 - with sqlglot

                if by_name.find(self._sparkSession, tableName) is not None:
                    self._sparkSession.sql(f"{words} {tableName}")
                    return None
            return original(self, tableName, *args, **named)

        return method

    return wrapper


def _session_of(reader: Any) -> Any:
    return reader._spark if hasattr(reader, "_spark") else reader._client  # classic, Connect


def _read_by_name(spark: Any, name: Any, options: dict[str, str]) -> Any:
    """The rows of a Hudi table; None for other names, and where Spark resolves the name itself."""
    if not isinstance(name, str) or not can_parse():
        return None
    from pyhudi.sql.frames import by_name  # noqa: PLC0415 - with sqlglot
    from pyhudi.sql.sessions import serve  # noqa: PLC0415 - the same

    if not options and serve(spark):
        return None
    found = by_name.find(spark, name)
    return None if found is None else by_name.read(spark, found, options)


def _insert_into(original: Original) -> Original:
    def insert_into(self: Any, tableName: Any, overwrite: bool | None = None) -> Any:  # noqa: N803
        if isinstance(tableName, str) and can_parse():
            from pyhudi.sql.frames import by_name  # noqa: PLC0415 - with sqlglot

            notes, rows = notes_of(self), written_rows(self)
            found = by_name.find(rows.sparkSession, tableName)
            if found is not None:
                replaces = (notes.mode or "").lower() == "overwrite" if overwrite is None else overwrite
                return by_name.insert(rows, found, notes.options, overwrite=replaces)
        return original(self, tableName, overwrite)

    return insert_into


def _save_as_table(original: Original) -> Original:
    def save_as_table(
        self: Any,
        name: str,
        format: str | None = None,  # noqa: A002
        mode: str | None = None,
        partitionBy: Any = None,  # noqa: N803
        **options: Any,
    ) -> Any:
        if format is not None:
            self.format(format)
        notes = notes_of(self)
        if not can_parse() or not notes.is_hudi:
            return original(self, name, None, mode, partitionBy, **options)
        from pyhudi.sql.frames import by_name  # noqa: PLC0415 - with sqlglot

        refuse_unsupported(notes, "written")
        notes.add_options(options)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        return by_name.save(written_rows(self), name, notes.options, mode or notes.mode, notes.partition_by)

    return save_as_table
