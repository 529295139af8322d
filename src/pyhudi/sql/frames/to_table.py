"""`df.writeStream.toTable(name)`: a stream into a table of the session catalog, which is made if it is not there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from pyhudi.config.option import options_of
from pyhudi.config.options_streams import StreamSinkOptions
from pyhudi.config.spelling import spelled
from pyhudi.spark.enable import FORMATS, Original, notes_of, streamed_rows, tell_partitions
from pyhudi.spark.streams.checkpoint import LOCATION
from pyhudi.sql.catalog.names import NamedTable
from pyhudi.sql.catalog.new_table import NewTable, put_in_catalog
from pyhudi.sql.frames.by_name import stored_table
from pyhudi.sql.text.tokens import Cursor

_TYPE: Final = "hoodie.datasource.write.table.type"
_OPERATION: Final = "hoodie.datasource.write.operation"
_OF_THE_STREAM: Final = {name for _, option in options_of(StreamSinkOptions) for name in option.spellings} | {
    LOCATION,
    _OPERATION,
    _TYPE,
}


def start_into_table(
    writer: Any,
    original: Original,
    name: str,
    output_mode: str | None,
    partition_by: Any,
    query_name: str | None,
    options: Mapping[str, Any],
) -> Any:
    """Start a stream into the table of a name, with the options of the catalog and of the writer.

    Raises:
        TableExistsError: the format is `hudi`, and the table of this name has another one.
    """
    notes = notes_of(writer)
    rows = streamed_rows(writer)
    table = stored_table(rows.sparkSession, Cursor(name).name())
    if table is None and not notes.is_hudi:
        tell_partitions(writer)
        return original(writer, name, None, output_mode, partition_by, query_name, **options)
    notes.add_options(dict(options))
    if partition_by is not None:
        writer.partitionBy(partition_by)
    if table is None:
        table = _made(rows, name, notes.options, notes.partition_by)
    notes.options = {key: text for key, text in notes.options.items() if key.lower() != "path"}
    notes.add_options(table.options(rows.sparkSession, notes.options))
    return writer.format(FORMATS[0]).start(table.location, outputMode=output_mode, queryName=query_name)


def _made(rows: Any, name: str, options: Mapping[str, str], partition_by: tuple[str, ...]) -> NamedTable:
    """A new table with the columns of the rows, in the folder of the option `path` or where the catalog puts it.

    Raises:
        TableExistsError: the catalog has a table of another format under the name.
    """
    spark, cursor = rows.sparkSession, Cursor(name)
    known = spelled(options)
    is_mor = str(known.get(_TYPE, "")).upper() == "MERGE_ON_READ"
    properties = {key: str(text) for key, text in known.items() if key.lower() not in _OF_THE_STREAM}
    put_in_catalog(
        spark,
        NewTable(
            cursor.name().parts,
            rows.schema,
            partition_by,
            properties={**properties, "type": "mor" if is_mor else "cow"},
        ),
    )
    table = stored_table(spark, Cursor(name).name())
    assert table is not None
    return table
