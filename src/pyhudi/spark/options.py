"""Options of a DataFrame reader or writer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from pyhudi.config.option import warn_of_option
from pyhudi.config.options_write import DEFAULT_METADATA_PREFIX, METADATA_PREFIX
from pyhudi.config.spelling import is_option_name, spelled
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.spark.settings import settings_of
from pyhudi.storage.options import select_storage_options

_CHOOSES_FILES = frozenset({"pathglobfilter", "modifiedbefore", "modifiedafter"})


_HADOOP = "spark.hadoop."
_LOCAL = ("file", "memory")


def is_local(path: str) -> bool:
    """Whether a path or URI is one of a local disk, or of the memory of this process."""
    scheme, is_uri, _ = path.partition("://")
    return not is_uri or scheme.lower() in _LOCAL


def with_session_store(spark: SparkSession, path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options, completed by the session's Hadoop options for the object store of the path.

    Spark's own formats use these options: the identity and the encryption that a session selects thus apply to Hudi
    tables, too. `options` take precedence. Options that are only in Hadoop's files, for example core-site.xml, are not
    used. Cost: for an object store, three calls to the driver's JVM.
    """
    if is_local(path):
        return dict(options)
    given = {name.lower() for name in options}
    of_hadoop = {
        name.removeprefix(_HADOOP): value
        for name, value in settings_of(spark).items()
        if name.startswith((f"{_HADOOP}fs.", f"{_HADOOP}dfs.")) and name.removeprefix(_HADOOP).lower() not in given
    }
    return {**of_hadoop, **options}


def table_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options under their canonical names.

    A job may set options for all formats of Spark, for example `compression`. Such an option has no effect on a Hudi
    table, and brings an `OptionWarning`.

    Raises:
        UnsupportedFeatureError: an option selects among files, so that a reader of files would leave out rows.
    """
    found = spelled(options)
    prefix = str(found.get(METADATA_PREFIX, DEFAULT_METADATA_PREFIX))
    for name in found:
        lower = name.lower()
        if lower in _CHOOSES_FILES:
            raise UnsupportedFeatureError(
                f"{name} selects files, but the timeline of a Hudi table decides which files are read: remove the"
                " option, and filter rows",
                option=name,
            )
        if not is_option_name(name, metadata_prefix=prefix) and not select_storage_options({name: ""}):
            warn_of_option(f"{name} has no effect on a Hudi table")
    return found
