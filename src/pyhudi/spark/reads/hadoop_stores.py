"""Stores that Spark's own readers can open: those for which its Hadoop has a file system.

PySpark from PyPI has none for object stores. The package `hadoop-aws` adds one for `s3a://`; without it, pyhudi reads
their files itself, in tasks.
"""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyhudi.spark.reads.jvm_objects import Jvm
from pyhudi.spark.settings import is_connect

_LOCAL = ("", "file")


def can_open(spark: SparkSession, uri: str) -> bool:
    """Whether Spark's Hadoop has a file system for a URI.

    Cost: for what is not on a local disk a call to the driver's JVM, or, through Spark Connect, an analysis in which
    the server asks whether the path is there.
    """
    scheme = uri.partition("://")[0] if "://" in uri else ""
    if scheme in _LOCAL:
        return True
    if is_connect(spark):
        return _is_opened_by_server(spark, uri, scheme)
    file_system = Jvm(spark).named("org.apache.hadoop.fs.FileSystem")
    try:
        file_system.getFileSystemClass(scheme, spark.sparkContext._jsc.hadoopConfiguration())
    except Py4JJavaError:  # UnsupportedFileSystemException, or a class that is not there
        return False
    return True


def _is_opened_by_server(spark: SparkSession, uri: str, scheme: str) -> bool:
    try:
        spark.read.schema("nothing int").parquet(uri).schema  # noqa: B018 - the server analyses it
    except PySparkException as error:  # with another reason, the read itself says it
        return f'No FileSystem for scheme "{scheme}"' not in str(error)
    return True
