"""Stores that Spark's own readers can open as pyhudi does: Spark's Hadoop has a file system, and the same options.

PySpark from PyPI has none for object stores. The package `hadoop-aws` adds one for `s3a://`. It takes its credentials
from the session alone, and keeps a connection that another read of the same bucket has opened; so options that a read
gives itself are not passed on. Where Spark cannot open a store, pyhudi reads the files itself (`closed_stores`).
"""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from pyhudi.spark.options import is_local
from pyhudi.spark.reads.jvm_objects import Jvm
from pyhudi.spark.settings import is_connect, settings_of
from pyhudi.storage.protocol import StorageSpec


def can_open(spark: SparkSession, store: StorageSpec) -> bool:
    """Whether Spark's Hadoop has a file system for the store's URI, and the store's options among its own.

    Cost: for what is not on a local disk a few calls to the driver's JVM, or, through Spark Connect, an analysis in
    which the server asks whether the path is there.
    """
    if is_local(store.uri):
        return True
    scheme = store.uri.partition("://")[0]
    if is_connect(spark):
        settings = settings_of(spark)
        is_known = all(settings.get(f"spark.hadoop.{name}") == value for name, value in store.options.items())
        return is_known and _is_opened_by_server(spark, store.uri, scheme)
    of_hadoop = spark._jsparkSession.sessionState().newHadoopConf()
    if any(of_hadoop.get(name) != value for name, value in store.options.items()):
        return False
    try:
        Jvm(spark).named("org.apache.hadoop.fs.FileSystem").getFileSystemClass(scheme, of_hadoop)
    except Py4JJavaError:  # UnsupportedFileSystemException, or a class that is not there
        return False
    return True


def _is_opened_by_server(spark: SparkSession, uri: str, scheme: str) -> bool:
    try:
        spark.read.schema("nothing int").parquet(uri).schema  # noqa: B018 - the server analyses it
    except PySparkException as error:  # with another reason, the read itself says it
        return f'No FileSystem for scheme "{scheme}"' not in str(error)
    return True
