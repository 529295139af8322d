"""The text of the Avro schema of `HoodieMetadataRecord`, by table version: character by character that of JVM Hudi."""

from __future__ import annotations

import json
from typing import Any, Final

from pyhudi.format.timeline.table_version import TableVersion

_Node = Any
_Field = dict[str, Any]

_TEXT: Final[_Node] = {"type": "string", "avro.java.string": "String"}
_UUID_BITS: Final = (
    "Refers to {} 64 bits if the fileId is based on UUID format. \nA UUID based fileId is stored as 3 pieces in RLI "
    "(fileIdHighBits, fileIdLowBits and fileIndex). \nFileID format is {{UUID}}-{{fileIndex}}."
)
_META_COLUMNS: Final = ("commit_time", "commit_seqno", "record_key", "partition_path", "file_name")


def record_avro(version: TableVersion) -> str:
    """The schema that the JVM Hudi release of a table version writes; meta columns included."""
    fields = [_nullable(f"_hoodie_{name}", "string", "") for name in _META_COLUMNS]
    fields += [
        _field("key", _TEXT),
        _field("type", "int", "Type of the metadata record"),
        # The one nullable column without a default.
        _field(
            "filesystemMetadata",
            ["null", _files()],
            "Contains information about partitions and files within the dataset",
        ),
        _nullable(
            "BloomFilterMetadata",
            _bloom_filter(),
            "Metadata Index of bloom filters for all data files in the user table",
        ),
        _nullable(
            "ColumnStatsMetadata",
            _column_stats(version),
            "Metadata Index of column statistics for all data files in the user table",
        ),
        _nullable(
            "recordIndexMetadata",
            _location(version),
            "Metadata Index that contains information about record keys and their location in the dataset",
        ),
    ]
    if version.has_secondary_indexes:
        deleted = _field("isDeleted", "boolean", "True if this entry has been deleted")
        fields.append(
            _nullable(
                "SecondaryIndexMetadata",
                _record("HoodieSecondaryIndexInfo", None, deleted),
                "Metadata Index that contains information about secondary keys and the corresponding record keys in "
                "the dataset",
            )
        )
    head = {
        "type": "record",
        "name": "HoodieMetadataRecord",
        "namespace": "org.apache.hudi.avro.model",
        "doc": "A record saved within the Metadata Table",
    }
    return json.dumps({**head, "fields": fields}, separators=(",", ":"))


def _field(name: str, node: _Node, doc: str | None = None, **default: Any) -> _Field:
    return {"name": name, "type": node, **({} if doc is None else {"doc": doc}), **default}


def _nullable(name: str, node: _Node, doc: str) -> _Field:
    branches = node if isinstance(node, list) else [node]
    return _field(name, ["null", *branches], doc, default=None)


def _record(name: str, doc: str | None, *fields: _Field) -> _Node:
    return {"type": "record", "name": name, **({} if doc is None else {"doc": doc}), "fields": list(fields)}


def _files() -> _Node:
    info = _record(
        "HoodieMetadataFileInfo",
        None,
        _field("size", "long", "Size of the file"),
        _field("isDeleted", "boolean", "True if this file has been deleted"),
    )
    return {"type": "map", "values": info, "avro.java.string": "String"}


def _bloom_filter() -> _Node:
    return _record(
        "HoodieMetadataBloomFilter",
        "Data file bloom filter details",
        _field("type", _TEXT, "Bloom filter type code"),
        _field("timestamp", _TEXT, "Instant timestamp when this metadata was created/updated"),
        _field("bloomFilter", "bytes", "Bloom filter binary byte array"),
        _field("isDeleted", "boolean", "Bloom filter entry valid/deleted flag"),
    )


def _wrappers(version: TableVersion) -> list[_Node]:
    """The records that wrap a value of each type: so that a union can have two of them with the same type inside."""
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15}
    wrapped: list[tuple[str, str, _Node]] = [
        ("Boolean", "boolean", "boolean"),
        ("Int", "int", "int"),
        ("Long", "long", "long"),
        ("Float", "float", "float"),
        ("Double", "double", "double"),
        ("Bytes", "bytes", "bytes"),
        ("String", "string", _TEXT),
        ("Date", "Date logical", "int"),
        ("Decimal", "Decimal logical", decimal),
        ("TimeMicros", "Time-micros logical", {"type": "long", "logicalType": "time-micros"}),
        ("TimestampMicros", "Timestamp-micros logical", "long"),
    ]
    if version.has_secondary_indexes:
        wrapped.append(("LocalDate", "Local Date", "int"))
    found = [
        _record(
            f"{name}Wrapper",
            f"A record wrapping {what} type to be able to be used it w/in Avro's Union",
            _field("value", node),
        )
        for name, what, node in wrapped
    ]
    if version.has_value_types:
        values = _nullable(
            "wrappedValues",
            {"type": "array", "items": ["null", *(wrapper["name"] for wrapper in found)]},
            "An array where each element is one of the supported wrapper types.",
        )
        found.append(_record("ArrayWrapper", "A record containing a list of wrapped values.", values))
    return found


def _column_stats(version: TableVersion) -> _Node:
    wrappers = _wrappers(version)
    range_doc = "{} value in the range. Based on user data table schema, we can convert {} to appropriate type"
    fields = [
        _nullable("fileName", _TEXT, "File name for which this column statistics applies"),
        _nullable("columnName", _TEXT, "Column name for which this column statistics applies"),
        _nullable("minValue", wrappers, range_doc.format("Minimum", "this")),
        _nullable("maxValue", [wrapper["name"] for wrapper in wrappers], range_doc.format("Maximum", "it")),
        _nullable("valueCount", "long", "Total count of values"),
        _nullable("nullCount", "long", "Total count of null values"),
        _nullable("totalSize", "long", "Total storage size on disk"),
        _nullable("totalUncompressedSize", "long", "Total uncompressed storage size on disk"),
        _field("isDeleted", "boolean", "Column range entry valid/deleted flag"),
    ]
    if version.has_secondary_indexes:
        doc = "Whether the min/max range of a column is tight bound or not"
        fields.append(_field("isTightBound", "boolean", doc, default=False))
    if version.has_value_types:
        value_type = _record(
            "HoodieValueTypeInfo",
            None,
            _field("typeOrdinal", "int", "Enum type ordinal representing the value type"),
            _nullable("additionalInfo", _TEXT, "Optional additional information about the value type"),
        )
        doc = "Value type information containing enum ordinal and optional additional information"
        fields.append(_nullable("valueType", value_type, doc))
    return _record("HoodieMetadataColumnStats", "Data file column statistics", *fields)


def _location(version: TableVersion) -> _Node:
    deduced = "fileIdHighBits" if version.has_secondary_indexes else "fileIdLowBits"
    fields = [
        _nullable("partitionName", _TEXT, "Refers to the partition name the record belongs to"),
        _nullable("fileIdHighBits", "long", _UUID_BITS.format("high")),
        _nullable("fileIdLowBits", "long", _UUID_BITS.format("low")),
        _nullable(
            "fileIndex",
            "int",
            "Index representing file index which is used to re-construct UUID based fileID. Applicable when the fileId "
            "is based on UUID format. \nA UUID based fileId is stored as 3 pieces in RLI (fileIdHighBits, "
            "fileIdLowBits and fileIndex). \nFileID format is {UUID}-{fileIndex}.",
        ),
        _nullable(
            "fileId",
            _TEXT,
            "Represents fileId of the location where record belongs to. When the encoding is 1, fileID is stored in "
            "raw string format.",
        ),
        _nullable(
            "instantTime", "long", "Epoch time in millisecond representing the commit time at which record was added"
        ),
        _field(
            "fileIdEncoding",
            "int",
            "Represents fileId encoding. Possible values are 0 and 1. O represents UUID based fileID, and 1 represents "
            "raw string format of the fileId. \nWhen the encoding is 0, reader can deduce fileID from fileIdLowBits, "
            f"{deduced} and fileIndex.",
            default=0,
        ),
    ]
    if version.has_secondary_indexes:
        doc = "Represents position of record within a file group for easier access. It will be used for index lookup."
        fields.append(_nullable("position", "long", doc))
    return _record("HoodieRecordIndexInfo", None, *fields)
