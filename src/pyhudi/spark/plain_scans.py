"""Plain scans: DataFrames that are nothing but columns of Parquet files, which the tasks of a write read themselves.

Spark would decode each file in the JVM, and send its rows to Python in the form of Arrow, which takes four fifths of
the time of a bulk insert. What is not known here to give the same rows is left to Spark: `plain_scan` is None for it.
"""

from __future__ import annotations

import itertools
import json
import logging
import re
import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyhudi.spark.parquet_ranges import FileRange, ListedFile, ScannedColumns
from pyhudi.spark.reads.jvm_objects import Jvm
from pyhudi.spark.settings import is_connect, settings_of

_log = logging.getLogger("pyhudi")

_LOGICAL: Final = "org.apache.spark.sql.catalyst.plans.logical."
_EXPRESSIONS: Final = "org.apache.spark.sql.catalyst.expressions."
_DATASOURCES: Final = "org.apache.spark.sql.execution.datasources."
_RELATION, _PROJECT = f"{_DATASOURCES}LogicalRelation", f"{_LOGICAL}Project"
_CHANGING_NOTHING: Final = frozenset({_PROJECT, f"{_LOGICAL}SubqueryAlias", f"{_LOGICAL}View"})
"""Steps of a plan, before it is optimized, that leave all rows where they are."""
_ATTRIBUTE, _ALIAS = f"{_EXPRESSIONS}AttributeReference", f"{_EXPRESSIONS}Alias"
_KNOWN_OPTIONS: Final = frozenset({"path"})
"""Options of a read that change nothing in the rows."""
_LEFT_OUT: Final = (
    "spark.sql.files.ignoreCorruptFiles",
    "spark.sql.files.ignoreMissingFiles",
    "spark.sql.parquet.fieldId.read.enabled",
    "spark.sql.parquet.int96TimestampConversion",
)
"""Settings that change what Spark reads of a file, unless they are false."""
_NOT_TO_BE_SET: Final = ("spark.sql.files.maxPartitionNum", "parquet.crypto.factory.class")
_OF_DATES, _OF_INT96 = "spark.sql.parquet.datetimeRebaseModeInRead", "spark.sql.parquet.int96RebaseModeInRead"
_STATUS: Final = re.compile(
    r"\w*FileStatus\{path=file:(/[^/].*); isDirectory=false; length=(\d+); replication=\d+; blocksize=\d+; "
    r"modification_time=(\d+); [^/]*\}",
    re.DOTALL,
)
"""How Hadoop writes what it knows of a file. A path that looks like the rest of it does not match."""


@dataclass(frozen=True, slots=True)
class PlainScan:
    """Columns of Parquet files. `splits`: the ranges that each of Spark's splits reads."""

    columns: ScannedColumns
    files: tuple[ListedFile, ...]
    splits: tuple[tuple[FileRange, ...], ...]


def plain_scan(rows: DataFrame, schema: pa.Schema, splits: int | None) -> PlainScan | None:
    """The scan of Parquet that a DataFrame is; None if it is anything else, or if that is not known.

    `schema`: the DataFrame's. `splits`: into how many the rows are gathered, if that is asked for. Whether their
    files allow it is for `reads_alike` to say. Cost: some calls to the driver's JVM, in which Spark optimizes the plan.
    """
    if is_connect(rows.sparkSession) or not schema.names:
        return None
    try:
        return _plain_scan(rows, schema, splits)
    except (Py4JError, PySparkException, TypeError, KeyError, ValueError) as error:
        _log.info("it is not known whether the rows are plain files of Parquet, so Spark hands them over: %s", error)
        return None


def _plain_scan(rows: DataFrame, schema: pa.Schema, splits: int | None) -> PlainScan | None:
    spark, execution = rows.sparkSession, rows._jdf.queryExecution()
    if _leaf(execution.analyzed()) is None:
        return None
    # What is cached, and what extensions of the session do with any plan, is in this one alone.
    plan = execution.optimizedPlan()
    leaf = _leaf(plan)
    sources = None if leaf is None else _sources(json.loads(plan.toJSON()))
    if leaf is None or sources is None or not _is_of_plain_files(leaf.relation(), sources):
        return None
    settings = settings_of(spark)
    if any(settings.get(name, "false").lower() != "false" for name in _LEFT_OUT):
        return None
    if any(name in settings for name in _NOT_TO_BE_SET) or _is_encrypted(spark):
        return None
    files = _listed(leaf.relation().location())
    if not files:
        return None
    columns = ScannedColumns(sources, schema, _is_new(spark, _OF_DATES), _is_new(spark, _OF_INT96))
    return PlainScan(columns, files, _gathered(_splits_of(spark, leaf.relation().location(), files), splits))


def _leaf(plan: Any) -> Any:
    """The relation at the end of a plan that only chooses and names columns; None for another plan."""
    while (name := plan.getClass().getName()) != _RELATION:
        if name not in _CHANGING_NOTHING:
            return None
        plan = plan.children().head()
    return plan


def _sources(nodes: Sequence[Mapping[str, Any]]) -> tuple[str, ...] | None:
    """For each column of an optimized plan the relation's column that it is; None if it is computed."""
    *above, relation = nodes
    if [node["class"] for node in nodes] not in ([_RELATION], [_PROJECT, _RELATION]) or relation["isStreaming"]:
        return None
    stored = [expression[0] for expression in relation["output"]]
    if any(attribute["class"] != _ATTRIBUTE for attribute in stored):
        return None
    names = {_number(attribute): str(attribute["name"]) for attribute in stored}
    chosen = []
    for expression in above[0]["projectList"] if above else relation["output"]:
        if [node["class"] for node in expression] not in ([_ATTRIBUTE], [_ALIAS, _ATTRIBUTE]):
            return None
        chosen.append(names[_number(expression[-1])])
    return tuple(chosen)


def _number(attribute: Mapping[str, Any]) -> tuple[int, str]:
    number = attribute["exprId"]
    return number["id"], number["jvmId"]


def _is_of_plain_files(relation: Any, names: Collection[str]) -> bool:
    """Whether a relation is of Parquet files, which are not in folders of partitions, read without any option."""
    schema = str(relation.schema().json())
    # It may say of a column that its texts are padded, that it is found by a number, or has a default.
    if schema.count('"metadata":') != schema.count('"metadata":{}'):
        return False
    return (
        {field["name"] for field in json.loads(schema)["fields"]}.issuperset(names)
        and _class_of(relation) == f"{_DATASOURCES}HadoopFsRelation"
        and _class_of(relation.fileFormat()) == f"{_DATASOURCES}parquet.ParquetFileFormat"
        and _class_of(relation.location()) == f"{_DATASOURCES}InMemoryFileIndex"
        and relation.partitionSchema().length() == 0
        and relation.bucketSpec().isEmpty()
        and set(filter(None, relation.options().keySet().mkString("\n").split("\n"))) <= _KNOWN_OPTIONS
    )


def _class_of(value: Any) -> str:
    return str(value.getClass().getName())


def _is_encrypted(spark: SparkSession) -> bool:
    return spark._jsc.hadoopConfiguration().get("parquet.crypto.factory.class") is not None


def _is_new(spark: SparkSession, setting: str) -> bool:
    return str(spark.conf.get(setting)).upper() == "CORRECTED"


def _listed(location: Any) -> tuple[ListedFile, ...] | None:
    """The files of a relation in Spark's order; None if one is not local, or not one that Spark would read."""
    between = f"\n{uuid.uuid4()}\n"
    listed = str(location.allFiles().mkString(between))
    files = []
    for status in listed.split(between) if listed else ():
        found = _STATUS.fullmatch(status)
        if found is None:
            return None
        file = ListedFile(found.group(1), int(found.group(2)), int(found.group(3)))
        # Spark leaves hidden files out, and those without a byte.
        if not file.size or file.path.rpartition("/")[2].startswith(("_", ".")):
            return None
        files.append(file)
    return tuple(files)


def _splits_of(spark: SparkSession, location: Any, files: Sequence[ListedFile]) -> list[list[FileRange]]:
    """The ranges that Spark's own scan reads in each of its splits (`FilePartition.getFilePartitions`)."""
    jvm, session = Jvm(spark), spark._jsparkSession
    nothing = jvm.sequence([])
    limit = jvm.named(f"{_DATASOURCES}FilePartition").maxSplitBytes(session, location.listFiles(nothing, nothing))
    to_open = session.sessionState().conf().filesOpenCostInBytes()
    ranges = [
        FileRange(file, start, min(start + limit, file.size)) for file in files for start in range(0, file.size, limit)
    ]
    splits: list[list[FileRange]] = []
    size = 0
    for part in sorted(ranges, key=lambda part: part.start - part.end):
        if not splits or size + part.end - part.start > limit:
            splits.append([])
            size = 0
        splits[-1].append(part)
        size += part.end - part.start + to_open
    return splits


def _gathered(splits: Sequence[Sequence[FileRange]], count: int | None) -> tuple[tuple[FileRange, ...], ...]:
    """The splits, as many as there may be: neighbours together, as Spark's `coalesce` does where no host is nearer."""
    kept = len(splits) if count is None else min(count, len(splits))
    bounds = [len(splits) * number // kept for number in range(kept + 1)] if kept else []
    groups = (splits[begin:end] for begin, end in itertools.pairwise(bounds))
    return tuple(tuple(itertools.chain.from_iterable(group)) for group in groups)
