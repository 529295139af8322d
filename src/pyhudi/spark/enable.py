"""Half of `enable(spark)`: `df.write.format("hudi")` and `spark.read.format("hudi")` on any PySpark session.

PySpark's Python data sources cannot prune columns, and cannot start jobs to commit a write. Therefore it wraps
the methods of PySpark's reader and writer classes. The wrappers record the options of a chain of calls, and handle the
chain only if its format is `hudi` or `org.apache.hudi`. Calls for all other formats go to PySpark unchanged.
`unwrap()` removes the wrappers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, Final, TypeAlias, cast

from pyspark.sql import DataFrame, SparkSession

from pyhudi.config.location import table_path
from pyhudi.config.spelling import spelled
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.spark.capabilities import HAS_PYTHON_SOURCES, IS_4, VERSION, without_python_sources
from pyhudi.spark.jar_settings import refuse_settings_of_a_missing_jar
from pyhudi.spark.reads.callbacks import can_be_called
from pyhudi.spark.reads.reader import load_table
from pyhudi.spark.settings import is_connect, runs_here
from pyhudi.spark.streams.checkpoint import LOCATION
from pyhudi.spark.streams.sink import batch_writer
from pyhudi.spark.writer import save_dataframe

FORMATS = ("hudi", "org.apache.hudi")
"""Both names of the format."""

_NOTES = "_pyhudi_notes"
_REGISTERED = "spark.pyhudi.registered"

Original: TypeAlias = Callable[..., Any]
Wrapper: TypeAlias = Callable[[Original], Original]
_originals: dict[tuple[type, str], Original] = {}


@dataclass(slots=True)
class Notes:
    """The calls of one reader or writer so far."""

    source: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    mode: str | None = None
    query_name: str | None = None
    partition_by: tuple[Any, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    unsupported: list[str] = field(default_factory=list)

    @property
    def is_hudi(self) -> bool:
        """Whether the format is Hudi's."""
        return (self.source or "").lower() in FORMATS

    def add_options(self, options: dict[str, Any]) -> None:
        """Record options. Names are not case-sensitive; a later value replaces an earlier one."""
        for name, value in options.items():
            if value is not None:
                for previous in [known for known in self.options if known.lower() == name.lower()]:
                    del self.options[previous]
                self.options[name] = str(value).lower() if isinstance(value, bool) else str(value)


def enable_format(spark: SparkSession) -> None:
    """Wrap readers and writers of this session's kind, and register the data source `hudi`. Once is enough.

    Raises:
        ConfigError: settings of the session need a jar of Hudi's that is not there.
        UnsupportedFeatureError: the session is one of Spark Connect before 4.0.
    """
    if is_connect(spark) and not IS_4:
        raise UnsupportedFeatureError(
            "Spark Connect needs PySpark 4.0 or newer: use a classic session, or a newer client and server",
            pyspark=VERSION,
        )
    refuse_settings_of_a_missing_jar(spark)
    _use_this_python(spark)
    module = import_module(type(spark).__module__.removesuffix("session") + "readwriter")
    wrap(module.DataFrameReader, _READER_WRAPPERS)
    wrap(module.DataFrameWriter, _WRITER_WRAPPERS)
    wrap(stream_writer_class(spark), _STREAM_WRITER_WRAPPERS)
    if not HAS_PYTHON_SOURCES:
        streams = import_module("pyspark.sql.streaming.readwriter")
        wrap(streams.DataStreamReader, {"format": _format, "load": _load_stream})
    elif spark.conf.get(_REGISTERED, None) is None:
        from pyhudi.spark.data_source import register_sources  # noqa: PLC0415 - not in every PySpark

        register_sources(spark)
        spark.conf.set(_REGISTERED, "true")


def _use_this_python(spark: SparkSession) -> None:
    """Have workers on this machine run this Python, unless a variable names theirs.

    PySpark starts `python3` of PATH: another one, without pyhudi, where a program is run by the path of its Python.
    """
    if runs_here(spark) and "PYSPARK_PYTHON" not in os.environ and sys.executable:
        spark.sparkContext.pythonExec = sys.executable


def unwrap() -> None:
    """Remove all wrappers. The registered data sources remain."""
    for (owner, name), original in _originals.items():
        setattr(owner, name, original)
    _originals.clear()


def wrap(owner: type, wrappers: Mapping[str, Wrapper]) -> None:
    """Wrap methods of a class of PySpark, each of them once; those that this version has."""
    for name, wrapper in wrappers.items():
        if (owner, name) not in _originals and hasattr(owner, name):
            original = getattr(owner, name)
            _originals[owner, name] = original
            wrapped = wrapper(original)
            wrapped.__name__, wrapped.__doc__ = name, original.__doc__
            setattr(owner, name, wrapped)


def original_of(owner: type, name: str) -> Original:
    """A method of a class of PySpark as it is without the wrapper, if there is one."""
    return _originals.get((owner, name)) or getattr(owner, name)


def notes_of(subject: Any) -> Notes:
    """What a reader or writer has been told so far."""
    notes = subject.__dict__.get(_NOTES)
    if notes is None:
        notes = subject.__dict__[_NOTES] = Notes()
    assert isinstance(notes, Notes)
    return notes


def _format(original: Original) -> Original:
    def format_(self: Any, source: str) -> Any:
        notes = notes_of(self)
        notes.source = source
        return self if notes.is_hudi else original(self, source)

    return format_


def noting(note: Callable[..., None]) -> Wrapper:
    """Wrap a method so that `note` gets the notes and the arguments of a call, which Spark then gets, too."""

    def wrapper(original: Original) -> Original:
        def method(self: Any, *args: Any, **named: Any) -> Any:
            note(notes_of(self), *args, **named)
            return original(self, *args, **named)

        return method

    return wrapper


def noting_as(name: str) -> Wrapper:
    """Wrap a method of one argument, whatever Spark calls it: the notes keep it under this name, unless it is None."""

    def note(notes: Notes, *args: Any, **named: Any) -> None:
        for value in (*args, *named.values()):
            if value is not None:
                setattr(notes, name, value)

    return noting(note)


def unsupported(name: str) -> Wrapper:
    """Wrap a method that only other formats support: a chain of calls with it is refused for a Hudi table."""
    return noting(lambda notes, *_args, **_named: notes.unsupported.append(name))


def _note_partitions(notes: Notes, *cols: Any) -> None:
    notes.partition_by = tuple(cols[0] if len(cols) == 1 and isinstance(cols[0], list | tuple) else cols)


def _stream_partition_by(original: Original) -> Original:
    """`partitionBy` of a stream writer. `foreachBatch` refuses partitions: Spark hears of those of other formats."""

    def partition_by(self: Any, *cols: Any) -> Any:
        notes = notes_of(self)
        _note_partitions(notes, *cols)
        return self if notes.is_hudi or notes.source is None else original(self, *cols)

    return partition_by


def tell_partitions(writer: Any) -> None:
    """Have Spark know the partitions that a stream writer of another format was told before its format."""
    if columns := notes_of(writer).partition_by:
        original_of(type(writer), "partitionBy")(writer, *columns)


def _load(original: Original) -> Original:
    def load(self: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> Any:  # noqa: A002
        if format is not None:
            self.format(format)
        notes = notes_of(self)
        if not notes.is_hudi:
            return original(self, path, None, schema, **options)
        if schema is not None:
            notes.unsupported.append("schema")
        refuse_unsupported(notes, "read")
        notes.add_options(options)
        session = self._spark if hasattr(self, "_spark") else self._client  # classic, Connect
        return load_table(session, _one_path(path, notes.options), notes.options)

    return load


def _load_stream(original: Original) -> Original:
    """`load` of a stream's reader, where no stream can read a Hudi table."""

    def load(self: Any, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> Any:  # noqa: A002
        if format is not None:
            self.format(format)
        if notes_of(self).is_hudi:
            raise without_python_sources(
                "a stream that reads a Hudi table",
                "read what was written since the last position by HudiTable.changes(), in a loop or a scheduled job",
            )
        return original(self, path, None, schema, **options)

    return load


def _save(original: Original) -> Original:
    def save(
        self: Any,
        path: str | None = None,
        format: str | None = None,  # noqa: A002
        mode: str | None = None,
        partitionBy: Any = None,  # noqa: N803
        **options: Any,
    ) -> None:
        if format is not None:
            self.format(format)
        notes = notes_of(self)
        if not notes.is_hudi:
            original(self, path, None, mode, partitionBy, **options)
            return
        refuse_unsupported(notes, "written")
        notes.add_options(options)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        save_dataframe(
            written_rows(self),
            _one_path(path, notes.options),
            options=notes.options,
            mode=mode or notes.mode,
            partition_by=notes.partition_by,
        )

    return save


def stream_writer_class(spark: SparkSession) -> type:
    """The class of `df.writeStream` in this session."""
    module = import_module(type(spark).__module__.removesuffix("session") + "streaming.readwriter")
    found: type = module.DataStreamWriter
    return found


def streamed_rows(writer: Any) -> DataFrame:
    """The DataFrame of a stream writer. A writer of Spark Connect holds only the plan."""
    if hasattr(writer, "_df"):
        rows: DataFrame = writer._df
        return rows
    frame = import_module("pyspark.sql.connect.dataframe").DataFrame
    return cast("DataFrame", frame(writer._write_stream._child, writer._session))


def written_rows(writer: Any) -> DataFrame:
    """The DataFrame of a writer. A writer of Spark Connect holds only the plan."""
    if isinstance(writer._df, DataFrame):
        return writer._df
    return import_module("pyspark.sql.connect.dataframe").DataFrame(writer._df, writer._spark)


def refuse_unsupported(notes: Notes, verb: str) -> None:
    """Raise `UnsupportedFeatureError` if the chain of calls has one that a Hudi table cannot follow."""
    if notes.unsupported:
        raise UnsupportedFeatureError(
            f"a Hudi table cannot be {verb} with {notes.unsupported[0]}(); leave the call out",
            call=notes.unsupported[0],
        )


def _one_path(path: Any, options: dict[str, str]) -> str:
    """The table's folder, from the argument or the options."""
    candidates = path if isinstance(path, list | tuple) else [path]
    if len(candidates) > 1:
        raise ConfigError(
            'format("hudi") takes one path, the folder of the table: read several tables one by one, and unite them',
            path=path,
        )
    return table_path(None if not candidates or candidates[0] is None else str(candidates[0]), spelled(options))


def _start(original: Original) -> Original:
    def start(
        self: Any,
        path: str | None = None,
        format: str | None = None,  # noqa: A002
        outputMode: str | None = None,  # noqa: N803
        partitionBy: Any = None,  # noqa: N803
        queryName: str | None = None,  # noqa: N803
        **options: Any,
    ) -> Any:
        if format is not None:
            self.format(format)
        notes = notes_of(self)
        if not notes.is_hudi:
            tell_partitions(self)
            return original(self, path, None, outputMode, partitionBy, queryName, **options)
        refuse_unsupported(notes, "written")
        notes.add_options(options)
        if outputMode is not None:
            self.outputMode(outputMode)
        if partitionBy is not None:
            self.partitionBy(partitionBy)
        name = queryName or notes.query_name
        session = streamed_rows(self).sparkSession
        write = batch_writer(
            session,
            _one_path(path, notes.options),
            options=notes.options,
            output_mode=notes.mode,
            partition_by=notes.partition_by,
            query_name=name,
        )
        checkpoint = {key: value for key, value in notes.options.items() if key.lower() == LOCATION}
        if not is_connect(session):
            can_be_called(session)  # the callback server, which foreachBatch needs, then asks for the secret
        return original(self.foreachBatch(write), queryName=queryName, **checkpoint)

    return start


OPTION_NOTES: Final[Mapping[str, Wrapper]] = {
    "option": noting(lambda notes, key, value: notes.add_options({key: value})),
    "options": noting(lambda notes, **values: notes.add_options(values)),
}
STREAM_READER_NOTES: Final[Mapping[str, Wrapper]] = {**OPTION_NOTES, "schema": unsupported("schema")}
"""What `spark.readStream` has to remember for `table`; all else of it is Spark's."""
_READER_WRAPPERS: Final[Mapping[str, Wrapper]] = {**STREAM_READER_NOTES, "format": _format, "load": _load}
_WRITER_WRAPPERS: Final[Mapping[str, Wrapper]] = {
    **OPTION_NOTES,
    **{name: unsupported(name) for name in ("bucketBy", "sortBy", "clusterBy")},
    "format": _format,
    "mode": noting_as("mode"),
    "partitionBy": noting(_note_partitions),
    "save": _save,
}
_STREAM_WRITER_WRAPPERS: Final[Mapping[str, Wrapper]] = {
    **OPTION_NOTES,
    "format": _format,
    "outputMode": noting_as("mode"),
    "queryName": noting_as("query_name"),
    "partitionBy": _stream_partition_by,
    "clusterBy": unsupported("clusterBy"),
    "start": _start,
}
