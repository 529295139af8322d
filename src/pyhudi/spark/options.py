"""The options of a DataFrame reader or writer, as Spark hands them on."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from pyhudi.config.option import OptionWarning
from pyhudi.config.options_write import DEFAULT_METADATA_PREFIX, METADATA_PREFIX
from pyhudi.config.spelling import is_option_name, spelled
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.storage.options import select_storage_options

_CHOOSES_FILES = frozenset({"pathglobfilter", "modifiedbefore", "modifiedafter"})


_HADOOP = "spark.hadoop."
_LOCAL = ("file", "memory")


def with_session_store(spark: SparkSession, path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, and before them those of the session's Hadoop about the object store that the path is in.

    Spark's own formats write by these: a session that is set up to encrypt, or to be somebody, is so for Hudi tables
    too. What only Hadoop's files say, such as core-site.xml, is not seen. Cost: a question to the driver's JVM where
    the path is that of an object store.
    """
    scheme, is_uri, _ = path.partition("://")
    if not is_uri or scheme.lower() in _LOCAL:
        return dict(options)
    given = {name.lower() for name in options}
    of_hadoop = {
        name.removeprefix(_HADOOP): value
        for name, value in spark.conf.getAll.items()
        if name.startswith(f"{_HADOOP}fs.") and name.removeprefix(_HADOOP).lower() not in given
    }
    return {**of_hadoop, **options}


def table_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options under the names that pyhudi knows them by.

    Spark's formats share their options, and a job may set some for all of them, such as `compression`: those bring an
    `OptionWarning`. Raises `UnsupportedFeatureError` for one by which a reader of files would leave rows out.
    """
    found = spelled(options)
    prefix = str(found.get(METADATA_PREFIX, DEFAULT_METADATA_PREFIX))
    for name in found:
        lower = name.lower()
        if lower in _CHOOSES_FILES:
            raise UnsupportedFeatureError(
                f"{name} chooses among files, and which files of a Hudi table count its timeline says: leave it out,"
                " and filter rows",
                option=name,
            )
        if not is_option_name(name, metadata_prefix=prefix) and not select_storage_options({name: ""}):
            warnings.warn(f"{name} has no effect on a Hudi table", OptionWarning, stacklevel=2)
    return found
