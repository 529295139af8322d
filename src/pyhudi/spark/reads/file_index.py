"""Spark's reader of Parquet files over the files of a scan; Spark's planner leaves out what a filter rules out.

Spark asks the `FileIndex` of a relation which files have rows for the filters of a query. Here this interface is an
object of this process, which the JVM calls (py4j). It answers from the plan of the scan, so a DataFrame always has the
same files.

Spark filters the rows as well: for columns in files, the answer is a matter of speed alone. Columns whose values are
known of each file are partition columns for Spark: it takes their values from the answer, and filters on them alone are
not asked again. So Spark itself decides them here, in the JVM. By partition columns joins prune dynamically.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
from py4j.java_gateway import JavaGateway, JavaObject
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from pyhudi.io.slices.files import SliceFiles
from pyhudi.read.scan import ScanSlice
from pyhudi.read.skipping.file_bounds import FilePruner, FooterRanges
from pyhudi.read.skipping.predicates import Predicate, columns_of_predicate
from pyhudi.spark.reads.asking_scan import filter_of_asking_scan
from pyhudi.spark.reads.callbacks import can_be_called
from pyhudi.spark.reads.catalyst import predicate_of
from pyhudi.spark.reads.jvm_objects import FileToRead, Jvm, encoded_uri
from pyhudi.spark.reads.jvm_partitions import JvmPartitions, PartitionOf
from pyhudi.spark.types import spark_schema
from pyhudi.storage.protocol import StorageSpec

_log = logging.getLogger(__name__)
tried: weakref.WeakKeyDictionary[JavaGateway, bool] = weakref.WeakKeyDictionary()
"""Whether an answer to Spark can be made, by the connection to the driver's JVM."""
_METADATA = pa.schema([("file_path", pa.string()), ("file_name", pa.string()), ("file_size", pa.int64())])
"""Fields of Spark's column `_metadata`, whose filters have their names alone."""
_VALUES: dict[str, Callable[[FileToRead], object]] = {
    "file_path": lambda file: _plain(file.uri),
    "file_name": lambda file: _plain(file.uri.rpartition("/")[2]),
    "file_size": lambda file: file.size,
}


def _plain(path: str) -> str | None:
    """A path that is the same whether it is encoded or not, as versions of Spark differ in that; else None: unknown."""
    return path if path.isascii() and encoded_uri(f"file:{path}") == f"file:{path}" else None


FILES_MAX = 500_000
"""How many files the indexes may have together before the JVM is asked to collect its garbage, at about a KiB each."""
DATASOURCES = "org.apache.spark.sql.execution.datasources"


@dataclass(frozen=True, slots=True)
class IndexedFiles:
    """The files of a relation.

    Attributes:
        root: the URI of the table's folder.
        files: all files.
        pruner: knows the same files, in the same order.
        columns: the columns whose values are known of each file.
        partitions: these values, of each file.
    """

    root: str
    files: tuple[FileToRead, ...]
    pruner: FilePruner
    columns: tuple[str, ...]
    partitions: tuple[PartitionOf, ...]

    @property
    def schema(self) -> pa.Schema:
        """The columns of Spark's filters: those of the files, and Spark's own of files, without those of both names."""
        own = {field.name.lower() for field in self.pruner.schema}
        of_spark = {field.name for field in _METADATA}
        of_files = [field for field in self.pruner.schema if field.name.lower() not in of_spark]
        return pa.schema([*of_files, *(field for field in _METADATA if field.name not in own)])

    @property
    def partition_schema(self) -> pa.Schema:
        """The columns whose values are known of each file, with their types."""
        return pa.schema([self.pruner.schema.field(name) for name in self.columns])

    def matching(self, predicate: Predicate) -> list[int]:
        """The numbers of the files that can have rows for which a predicate on `schema` holds."""
        asked = columns_of_predicate(predicate)
        values = {
            field.name: pa.array(map(_VALUES[field.name], self.files), field.type)
            for field in _METADATA
            if field.name in asked and field.name in self.schema.names
        }
        return self.pruner.matching(predicate, values)


def is_possible(spark: SparkSession) -> bool:
    """Whether the driver's JVM can call this process, and has the classes of Spark and Hadoop that are used here.

    Cost: the first time some ten calls.
    """
    if not can_be_called(spark):
        return False
    gateway = spark.sparkContext._gateway
    if gateway not in tried:
        tried[gateway] = _works(Jvm(spark))
    return tried[gateway]


def _works(jvm: Jvm) -> bool:
    """Whether an answer to Spark can be made. It has internal classes, which may differ in the next release."""
    schema = pa.schema([("id", pa.int64()), ("city", pa.string())])
    pruner = FilePruner((ScanSlice(SliceFiles("f", ()), 1, ""),), schema, FooterRanges(StorageSpec("file:/"), schema))
    index = _FileIndex(jvm, IndexedFiles("file:/", (FileToRead("file:/f", 1),), pruner, ("city",), (("a",),)))
    try:
        nothing = jvm.sequence([])
        true = jvm.named("org.apache.spark.sql.catalyst.expressions.Literal").TrueLiteral()
        directory = index.listFiles(jvm.sequence([true]), nothing).head()
        index.rootPaths()
        return bool(
            directory.values().toString() == "[a]"
            and directory.files().head().getLen() == 1
            and index.inputFiles()[0] == "file:/f"
        )
    except (Py4JError, TypeError) as error:  # py4j takes a class that is not there for a package, and cannot call it
        _log.info("this version of Spark has other classes, so files are pruned when they are read: %s", error)
        return False


def indexed_rows(spark: SparkSession, files: IndexedFiles, options: Mapping[str, str]) -> DataFrame:
    """The rows of the files, as a relation of Spark that asks `files` what to read. `options` are options of Parquet.

    Cost: some calls to the JVM, and no request: Spark does not look for the files.
    """
    jvm = Jvm(spark)
    index = _FileIndex(jvm, files)
    live.add(index, jvm)
    relation = jvm.named(f"{DATASOURCES}.HadoopFsRelation")(
        index,
        index.partitionSchema(),
        jvm.data_type(spark_schema(files.pruner.schema)),
        index.metadataOpsTimeNs(),
        jvm.named(f"{DATASOURCES}.parquet.ParquetFileFormat")(),
        jvm.collections.toScalaMap(dict(options)),
        spark._jsparkSession,
    )
    return DataFrame(spark._jsparkSession.baseRelationToDataFrame(relation), spark)


class _LiveIndexes:
    """The indexes that the JVM has not let go yet. Python keeps each of them until then.

    The JVM does not know how large they are here, so when they are many, it is asked to collect its garbage.
    """

    def __init__(self) -> None:
        self.indexes: weakref.WeakSet[_FileIndex] = weakref.WeakSet()
        self.files_max = FILES_MAX
        self._adding = threading.Lock()

    def add(self, index: _FileIndex, jvm: Jvm) -> None:
        """Note an index. Cost: no call, unless there are many."""
        with self._adding:
            self.indexes.add(index)
            files, limit = sum(len(file_slice.files.files) for file_slice in self.indexes), self.files_max
            is_full = files > limit
            self.files_max = max(FILES_MAX, 2 * files if is_full else min(limit, 2 * files))
        if is_full:
            jvm.named("java.lang.System").gc()


class _FileIndex:
    """Spark's interface `FileIndex`, whose names the methods have. The JVM calls them in any of its threads."""

    def __init__(self, jvm: Jvm, files: IndexedFiles) -> None:
        self._jvm = jvm
        self.files = files

    def listFiles(self, partition_filters: Any, data_filters: Any) -> Any:  # noqa: N802
        """The files that can have rows for these filters."""
        of_folders, of_rows = (
            [filters.apply(number) for number in range(filters.length())]
            for filters in (partition_filters, data_filters)
        )
        # What joins a partition column and another one by `or` is in neither.
        whole = filter_of_asking_scan(self._jvm) if self.files.columns else None
        filters = [*of_folders, *of_rows, *([] if whole is None else [whole])]
        predicate = predicate_of(filters, self.files.schema, self.files.pruner.expressions)
        groups: dict[PartitionOf, list[FileToRead]] = defaultdict(list)
        for number in self.files.matching(predicate):
            groups[self.files.partitions[number]].append(self.files.files[number])
        partitions = JvmPartitions(self._jvm, spark_schema(self.files.partition_schema))
        passing = partitions.passing(of_folders, [*groups])
        return partitions.directories(passing, [groups[partition] for partition in passing])

    def rootPaths(self) -> Any:  # noqa: N802
        """The table's folder, twice: Spark writes into a relation of one path, and deletes what is there.

        That is where the view of a DataFrame is the target of an `INSERT`.
        """
        return self._root_paths

    def inputFiles(self) -> Any:  # noqa: N802
        """All files, for `DataFrame.inputFiles`."""
        return self._jvm.texts([encoded_uri(file.uri) for file in self.files.files])

    def sizeInBytes(self) -> int:  # noqa: N802
        """The size of all files, by which Spark plans joins."""
        return self._size

    def partitionSchema(self) -> Any:  # noqa: N802
        """The columns whose values are known of each file."""
        return self._partition_schema

    def refresh(self) -> None:
        """A DataFrame does not change."""

    def isTimeTravel(self) -> bool:  # noqa: N802
        """Whether the files are of a time that the query names: no, for Spark's own syntax."""
        return False

    def metadataOpsTimeNs(self) -> Any:  # noqa: N802
        """How long planning took, which is not measured."""
        return self._none

    def equals(self, other: object) -> bool:
        """Whether it has the same files, so that Spark may use the cached rows, or the exchange, of the other one.

        `other` is an object of the JVM, for another index too.
        """
        return isinstance(other, JavaObject) and bool(other.toString() == self.toString())

    def hashCode(self) -> int:  # noqa: N802
        """A hash that fits `equals`."""
        return int.from_bytes(self._identity[:4], "big", signed=True)

    def toString(self) -> str:  # noqa: N802
        """A text that no index of other files has."""
        return f"pyhudi: {len(self.files.files)} files of {self.files.root}, {self._identity.hex()}"

    # Spark asks for these some ten times per query.

    @cached_property
    def _root_paths(self) -> Any:
        return self._jvm.sequence([self._jvm.named("org.apache.hadoop.fs.Path")(self.files.root)] * 2)

    @cached_property
    def _partition_schema(self) -> Any:
        return self._jvm.data_type(spark_schema(self.files.partition_schema))

    @cached_property
    def _none(self) -> Any:
        return self._jvm.single("scala.None")

    @cached_property
    def _size(self) -> int:
        return sum(file.size for file in self.files.files)

    @cached_property
    def _identity(self) -> bytes:
        files = "\n".join(file.uri for file in self.files.files)
        return hashlib.sha256(f"{self.files.root}\n{self.files.columns}\n{files}".encode()).digest()

    class Java:
        implements = (f"{DATASOURCES}.FileIndex",)


live = _LiveIndexes()
