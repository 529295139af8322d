"""Keys of JVM Hudi that must not be ignored, because they change rows, files, checks or access.

If pyhudi ignored one of these keys, it would write or return something other than requested, so such a value is an
error. Values that describe what pyhudi does anyway are harmless.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Side(enum.Enum):
    """Whether a key concerns reads or writes. Jobs often pass one set of options to both."""

    READ = "read"
    WRITE = "write"


BOTH = frozenset(Side)
READS = frozenset({Side.READ})
WRITES = frozenset({Side.WRITE})
_OFF = ("false",)


@dataclass(frozen=True, slots=True)
class Refused:
    """Keys that are refused for one reason. A name that ends with a dot stands for all keys that begin with it.

    `harmless` are the values (in lower case) that are accepted; one that ends with a dot stands for all values that
    begin with it. The empty text is always harmless.
    """

    keys: tuple[str, ...]
    reason: str
    sides: frozenset[Side]
    harmless: tuple[str, ...] = ()

    def covers(self, key: str) -> bool:
        """Whether a key is one of these, in any case."""
        return covered(key, self.keys)

    def refuses(self, text: str) -> bool:
        """Whether the value asks for something that pyhudi does not support."""
        value = text.strip().lower()
        return bool(value) and not any(
            value == harmless or (harmless.endswith(".") and value.startswith(harmless)) for harmless in self.harmless
        )


def covered(key: str, names: tuple[str, ...]) -> bool:
    """Whether a key is one of the names, or begins with one that ends with a dot; in any case."""
    lower = key.lower()
    return any(lower == name.lower() or (name.endswith(".") and lower.startswith(name.lower())) for name in names)


def _refused(keys: str, reason: str, sides: frozenset[Side], harmless: tuple[str, ...] = ()) -> Refused:
    return Refused(tuple(f"hoodie.{name}" for name in keys.split()), reason, sides, harmless)


REFUSED: tuple[Refused, ...] = (
    _refused(
        "prewrite.validators",
        "nothing validates rows before they are written, so the write would commit what they should prevent: name the"
        " validators in hoodie.precommit.validators, which refuse before the commit",
        WRITES,
    ),
    _refused(
        "merge.data.validation.enabled",
        "this check is not built: leave the option out",
        WRITES,
        _OFF,
    ),
    _refused(
        "write.schema avro.schema internal.schema",
        "the columns of a write are those of its rows: cast the rows",
        WRITES,
    ),
    _refused(
        "allow.operation.metadata.field",
        "data files get no column _hoodie_operation; a row that brings one with `D` in it is a delete all the same",
        WRITES,
        _OFF,
    ),
    _refused(
        "static.overwrite.partition.paths bulkinsert.overwrite.operation.type",
        "JVM Hudi's SQL uses this internally for the partitions that it replaces: use the operation insert_overwrite,"
        " insert_overwrite_table or delete_partition",
        WRITES,
    ),
    _refused(
        "merge.allow.duplicate.on.inserts",
        "with false, an insert of JVM Hudi updates a record if the file that it extends has the key: use upsert,"
        " or hoodie.datasource.insert.dup.policy",
        WRITES,
        ("true",),
    ),
    _refused(
        "keygen.datetime.parser.class deltastreamer.keygen.datetime.parser.class",
        "a parser of dates of your own would make other partition paths, and pyhudi runs no Java",
        WRITES,
        ("org.apache.hudi.keygen.parser.",),
    ),
    _refused(
        "index.hbase.security.authentication",
        "the client of HBase's Thrift server speaks no Kerberos, so the connection would not be secured: leave the "
        "option out for a Thrift server that asks for none",
        WRITES,
        ("simple",),
    ),
    _refused(
        "storage.layout.type",
        "a layout decides where records go: a table has that of its index",
        WRITES,
        ("default", "bucket"),
    ),
    _refused(
        "storage.layout.partitioner.class",
        "a layout of your own decides where records go, and pyhudi runs no Java",
        WRITES,
        ("org.apache.hudi.table.action.commit.sparkbucketindexpartitioner",),
    ),
    _refused(
        "bucket.index.partition.rule.type",
        "other rules decide where records go, and JVM Hudi has none",
        WRITES,
        ("regex",),
    ),
    _refused(
        "write.merge.handle.class write.concat.handle.class compact.merge.handle.class",
        "a class of your own may merge records in another way, and pyhudi runs no Java: write a merger",
        WRITES,
        ("org.apache.hudi.io.",),
    ),
    _refused(
        "record.merge.property. payload.update.on.same.ordering.field table.partial.update.mode write.partial.update.",
        "this changes how versions of a record merge, and a table has it from its payload class: name the class when"
        " the table is made",
        WRITES,
    ),
    _refused(
        "avro.write.support.class parquet.spark.row.write.support.class parquet.flink.rowdata.write.support.class",
        "a class of your own may encrypt or encode files in another way, and pyhudi runs no Java",
        WRITES,
        ("org.apache.hudi.avro.", "org.apache.hudi.io.storage."),
    ),
    _refused(
        "parquet.write.config.injector.class",
        "a class of your own may encrypt files, and pyhudi runs no Java: it would write them as they are",
        WRITES,
    ),
    _refused(
        "auto.commit",
        "with false the caller commits, but a write of pyhudi always commits: leave the option out",
        WRITES,
        ("true",),
    ),
    _refused(
        "assume.date.partitioning",
        "partitions are what their metadata says, and not all folders of three levels: leave the option out",
        BOTH,
        _OFF,
    ),
    _refused(
        "storage.class io.factory.class",
        "a class of your own may keep or encrypt files in another way, and pyhudi runs no Java",
        BOTH,
        ("org.apache.hudi.",),
    ),
    _refused(
        "metaserver.enabled",
        "the metaserver keeps the timeline elsewhere, and pyhudi reads and writes the one in the table's folder",
        BOTH,
        _OFF,
    ),
    _refused(
        "archivelog.folder timeline.path timeline.history.path",
        "the folders of the timeline of a new table cannot be chosen: leave the option out",
        WRITES,
        ("archived", "timeline", "history"),
    ),
    _refused(
        "table.version",
        "the format version of a new table is hoodie.write.table.version, and pyhudi upgrades no table",
        WRITES,
        ("9", "nine"),
    ),
    _refused(
        "partition.metafile.use.base.format table.multiple.base.file.formats.enable",
        "tables with this property are not made by this release",
        WRITES,
        _OFF,
    ),
    _refused("table.format", "tables of other formats than Hudi's own are not supported", BOTH, ("native",)),
    _refused(
        "realtime.merge.skip",
        "rows of base and log files side by side are not supported: leave the option out",
        READS,
        _OFF,
    ),
    _refused(
        "datasource.read.incr.filters",
        "JVM Hudi leaves rows out by these: filter the DataFrame, or give `where`",
        READS,
    ),
    _refused(
        "datasource.read.incr.path.glob",
        "JVM Hudi leaves files out by this: filter by the partition columns",
        READS,
    ),
    _refused(
        "datasource.read.incr.table.version datasource.read.streaming.table.version",
        "the times of an incremental read are those of the table's own version",
        READS,
    ),
    _refused(
        "datasource.read.schema.use.end.instanttime",
        "the columns of an incremental read are the table's newest: choose among them",
        READS,
        _OFF,
    ),
    _refused(
        "read.timeline.holes.resolution.policy",
        "an incremental read has the writes that are completed, whatever else is pending",
        READS,
        ("fail",),
    ),
    _refused(
        "datasource.read.extract.partition.values.from.path datasource.read.partition.value.extractor.enabled",
        "partition columns have the values that the rows brought, and not those that folder names show: leave the"
        " option out",
        READS,
        _OFF,
    ),
    _refused(
        "datasource.read.paths",
        "a read has one path, the table's folder or one of its partitions: leave the option out, or read several tables"
        " and unite them",
        READS,
    ),
    _refused(
        "datasource.read.create.filesystem.relation datasource.read.table.valued.function.timeline.relation",
        "this asks for the table's files or timeline instead of its rows: use table.inspect.files() or .timeline()",
        READS,
        _OFF,
    ),
)

ENCRYPTION = ("parquet.crypto.factory.class", "parquet.encryption.")
"""Option names of Parquet, which JVM Hudi passes to its Parquet writer."""
ENCRYPTION_REASON = "encrypted Parquet files are not supported: the files would not be encrypted"


def refusal(key: str, text: str, side: Side) -> str | None:
    """The reason to refuse a key with this value on this side; None if it is accepted."""
    if covered(key, ENCRYPTION):
        return ENCRYPTION_REASON
    for refused in REFUSED:
        if refused.covers(key) and side in refused.sides and refused.refuses(text):
            return refused.reason
    return None


def is_refusable(key: str) -> bool:
    """Whether some value of this key is refused on some side."""
    return any(refused.covers(key) for refused in REFUSED)
