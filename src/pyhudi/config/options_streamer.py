"""The options of the streamer, under the names of JVM Hudi's HoodieStreamer."""

# ruff: noqa: RUF009 - option() declares a field, as dataclasses.field does

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.config.enums import ErrorTableFailure
from pyhudi.config.option import option
from pyhudi.config.parsers import any_text, integer, text


def older_names(name: str) -> tuple[str, ...]:
    """The name of an option in releases of JVM Hudi before 0.14."""
    return (f"hoodie.deltastreamer.{name}",)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamerOptions:
    """What the streamer does with its batches; docs/ingestion.md describes it."""

    skips_checkpoint: bool = option(
        "hoodie.streamer.checkpoint.force.skip",
        aliases=older_names("checkpoint.force.skip"),
        default=False,
        doc="The streamer: whether its commits keep no checkpoint, as for filling in what was missed. The next run goes"
        " on from where the runs before this one had come to.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorTableOptions:
    """The table that takes the records of a source that cannot become rows of the table."""

    is_enabled: bool = option(
        "hoodie.errortable.enable",
        default=False,
        doc="The streamer: whether records that cannot be read, or that have no record key, are written to a table of"
        " their own. Otherwise the first of them stops the run. For topics and files.",
    )
    path: str | None = option(
        "hoodie.errortable.base.path",
        parse=text("a folder: a path, or a URI of an object store"),
        default=None,
        doc="The streamer: the folder of the error table. Several streamers may have one.",
    )
    name: str | None = option(
        "hoodie.errortable.target.table.name",
        parse=text("a name"),
        default=None,
        doc="The streamer: the name of a new error table; that of its folder, if it is not given.",
    )
    checks_rows: bool = option(
        "hoodie.errortable.validate.recordcreation.enable",
        default=True,
        doc="The streamer, with an error table: whether it takes rows that have no record key, or null in a column of"
        " the schema that cannot be null. Otherwise these stop the run.",
    )
    checks_types: bool = option(
        "hoodie.errortable.validate.targetschema.enable",
        default=False,
        doc="The streamer, with an error table: whether it takes JSON with values that do not fit the types of the"
        " table's columns. Otherwise columns get wider types where they can, and the run stops where they cannot.",
    )
    on_failure: ErrorTableFailure = option(
        "hoodie.errortable.write.failure.strategy",
        default=ErrorTableFailure.ROLLBACK_COMMIT,
        doc="The streamer: what it does if the error table cannot be written. ROLLBACK_COMMIT: the run fails, and"
        " nothing of the batch is in the table. LOG_ERROR: it goes on, and the failed records are lost.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderOptions:
    """The files that the sources of the streamer read."""

    root: str | None = option(
        "hoodie.streamer.source.dfs.root",
        aliases=older_names("source.dfs.root"),
        parse=text("a folder: a path, or a URI of an object store"),
        default=None,
        doc="The streamer: the folder whose files are read, with all folders below it. Names that begin with `.` or `_`"
        " are left out.",
    )
    csv_separator: str = option(
        "hoodie.streamer.csv.sep",
        aliases=older_names("csv.sep"),
        parse=text("one character"),
        default=",",
        doc="The streamer: what separates the values of a CSV file.",
    )
    csv_header: bool = option(
        "hoodie.streamer.csv.header",
        aliases=older_names("csv.header"),
        default=False,
        doc="The streamer: whether the first line of a CSV file names its columns. Otherwise they are those of the"
        " schema provider or of the table, in their order, or else `_c0`, `_c1` and so on.",
    )
    csv_quote: str = option(
        "hoodie.streamer.csv.quote",
        aliases=older_names("csv.quote"),
        parse=text("one character"),
        default='"',
        doc="The streamer: what stands around a value of a CSV file that has a separator in it.",
    )
    csv_null: str = option(
        "hoodie.streamer.csv.nullvalue",
        aliases=older_names("csv.nullvalue"),
        parse=any_text(),
        default="",
        doc="The streamer: the text of a CSV file that means null.",
    )
    csv_infers: bool = option(
        "hoodie.streamer.csv.inferschema",
        aliases=older_names("csv.inferschema"),
        default=False,
        doc="The streamer: whether columns of a CSV file that neither the schema provider nor the table knows get the"
        " types that their values look like. Otherwise they are texts.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HudiSourceOptions:
    """The Hudi table that HoodieIncrSource reads."""

    path: str | None = option(
        "hoodie.streamer.source.hoodieincr.path",
        aliases=older_names("source.hoodieincr.path"),
        parse=text("a folder: a path, or a URI of an object store"),
        default=None,
        doc="The streamer, with HoodieIncrSource: the folder of the table that is read.",
    )
    instants: int | None = option(
        "hoodie.streamer.source.hoodieincr.num_instants",
        aliases=older_names("source.hoodieincr.num_instants"),
        parse=integer(minimum=1, unit="writes"),
        default=None,
        doc="The streamer, with HoodieIncrSource: how many writes of that table a batch has at most; all, if it is not"
        " given. The first batch has all rows of the table.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaProviderOptions:
    """Where the columns of the rows come from."""

    source_file: str | None = option(
        "hoodie.streamer.schemaprovider.source.schema.file",
        aliases=older_names("schemaprovider.source.schema.file"),
        parse=text("the path or URI of an Avro schema"),
        default=None,
        doc="The streamer, with FilebasedSchemaProvider: the file with the Avro schema of what the source has.",
    )
    target_file: str | None = option(
        "hoodie.streamer.schemaprovider.target.schema.file",
        aliases=older_names("schemaprovider.target.schema.file"),
        parse=text("the path or URI of an Avro schema"),
        default=None,
        doc="The streamer, with FilebasedSchemaProvider: the file with the Avro schema of the table; that of the"
        " source, if it is not given.",
    )
    registry: str | None = option(
        "hoodie.streamer.schemaprovider.registry.url",
        aliases=older_names("schemaprovider.registry.url"),
        parse=text("a URL"),
        default=None,
        doc="The streamer, with AvroKafkaSource: the schema registry, or the version of a subject in it. Each message"
        " is read by the schema that it names, not by that version. The client's `schema.registry.url` is read, too.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaOptions:
    """The topic that the Kafka sources of the streamer read."""

    topic: str | None = option(
        "hoodie.streamer.source.kafka.topic",
        aliases=older_names("source.kafka.topic"),
        parse=text("the name of a topic"),
        default=None,
        doc="The streamer: the topic that is read.",
    )
    max_events: int = option(
        "hoodie.streamer.kafka.source.maxevents",
        aliases=older_names("kafka.source.maxevents"),
        parse=integer(minimum=1, unit="messages"),
        default=5_000_000,
        doc="The streamer: about how many messages of a topic a batch has, if `source_limit` is not given.",
    )
    fails_on_loss: bool = option(
        "hoodie.streamer.source.kafka.enable.failondataloss",
        aliases=older_names("source.kafka.enable.failondataloss"),
        default=True,
        doc="The streamer: whether messages that are gone before they were read, and a topic that was made anew, stop"
        " it. With false it goes on with what is there; only partitions that lost something move. JVM Hudi's default is"
        " false.",
    )
    appends_offsets: bool = option(
        "hoodie.streamer.source.kafka.append.offsets",
        aliases=older_names("source.kafka.append.offsets"),
        default=False,
        doc="The streamer: whether rows get the columns `_hoodie_kafka_source_offset`, `_hoodie_kafka_source_partition`"
        " and `_hoodie_kafka_source_timestamp`.",
    )
    route_values: str | None = option(
        "hoodie.streamer.source.kafka.route.values",
        parse=text("values with commas between them, or *"),
        default=None,
        doc="The streamer: of a topic with messages for many tables, the values of those for this one; `*` for those"
        " that no other table of the run takes. All messages, if it is not given. JVM Hudi does not know this option.",
    )
    route_field: str | None = option(
        "hoodie.streamer.source.kafka.route.field",
        parse=text("the name of a field"),
        default=None,
        doc="The streamer, with hoodie.streamer.source.kafka.route.values: the field of JSON that has the value, with"
        " points between the names of nested fields. If it is not given: the message key, and of change data the table"
        " of the database, such as `public.orders`. JVM Hudi does not know this option.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeDataOptions:
    """How messages that say how rows changed become rows."""

    post_processor: str | None = option(
        "hoodie.streamer.source.json.kafka.post.processor.class",
        aliases=older_names("source.json.kafka.post.processor.class"),
        parse=text("the name of a class"),
        default=None,
        doc="The streamer: how JsonKafkaSource reads messages of Maxwell, by `MaxwellJsonKafkaSourcePostProcessor`.",
    )
    deserializer: str | None = option(
        "hoodie.streamer.source.kafka.value.deserializer.class",
        aliases=older_names("source.kafka.value.deserializer.class"),
        parse=text("the name of a class"),
        default=None,
        doc="The streamer, with the sources of Debezium: a class whose name ends in `StringDeserializer` for JSON."
        " Without a schema registry it is JSON, too, and otherwise Avro.",
    )
    decimals: str = option(
        "hoodie.streamer.source.debezium.decimal.handling.mode",
        parse=text("precise, string or double"),
        default="precise",
        doc="The streamer, with the sources of Debezium: how it sends decimals, as its `decimal.handling.mode` says."
        " JVM Hudi does not know this option.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformerOptions:
    """What the transformers of the streamer do."""

    sql: str | None = option(
        "hoodie.streamer.transformer.sql",
        aliases=older_names("transformer.sql"),
        parse=text("a query"),
        default=None,
        doc="The streamer, with SqlQueryBasedTransformer: a query in the SQL of DuckDB, in which `<SRC>` stands for the"
        " rows of the batch.",
    )
    sql_file: str | None = option(
        "hoodie.streamer.transformer.sql.file",
        aliases=older_names("transformer.sql.file"),
        parse=text("the path or URI of a file"),
        default=None,
        doc="The streamer, with SqlFileBasedTransformer: a file with such a query.",
    )
