"""Options of tables in SQL: short names in `TBLPROPERTIES (primaryKey = 'id')`, and `SET hoodie.…` of the session."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from pyspark.sql import SparkSession

from pyhudi.config.option import warn_of_option
from pyhudi.errors import ConfigError
from pyhudi.spark.settings import settings_of

_LONG = {
    "primarykey": "hoodie.datasource.write.recordkey.field",
    "type": "hoodie.datasource.write.table.type",
    "orderingfields": "hoodie.table.ordering.fields",
    "precombinefield": "hoodie.table.ordering.fields",
    "payloadclass": "hoodie.datasource.write.payload.class",
    "recordmergemode": "hoodie.write.record.merge.mode",
    "recordmergestrategyid": "hoodie.write.record.merge.strategy.id",
    "recordmergerimpls": "hoodie.write.record.merge.custom.implementation.classes",
}
_TYPES = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
_PREFIXES = ("hoodie.", "spark.hoodie.")


def hudi_options(properties: Mapping[str, str]) -> dict[str, str]:
    """The options of Hudi that properties of a table mean; other properties are the catalog's alone.

    Warns (`OptionWarning`) of a name that is nearly one of Hudi's. Raises `ConfigError` where the type is unknown, or
    two names of one option have different values.
    """
    options: dict[str, str] = {}
    for name, value in properties.items():
        key = _LONG.get(name.lower(), name)
        if not key.lower().startswith("hoodie."):
            _warn_if_misspelled(name)
            continue
        if name.lower() == "type":
            if value.lower() not in _TYPES:
                raise ConfigError("the type of a Hudi table is 'cow' or 'mor'", type=value)
            value = _TYPES[value.lower()]  # noqa: PLW2901
        if options.setdefault(key, value) != value:
            raise ConfigError(f"two properties say {key}, and differ", values=(options[key], value))
    return options


def _warn_if_misspelled(name: str) -> None:
    """Warn of a property that is the catalog's alone, and nearly has the name of one that would make the table."""
    near = difflib.get_close_matches(name.lower(), _LONG, n=1, cutoff=0.8)
    if near:
        warn_of_option(
            f"the property {name} means nothing to Hudi, and is only kept in the catalog: did you mean {near[0]}?"
        )


def session_options(spark: SparkSession) -> dict[str, str]:
    """The settings of a session whose names begin with `hoodie.`, or `spark.hoodie.`, which means the same."""
    found = {name: value for name, value in settings_of(spark).items() if name.lower().startswith(_PREFIXES)}
    longer = {name.removeprefix("spark."): value for name, value in found.items() if name.startswith("spark.")}
    return {**longer, **{name: value for name, value in found.items() if not name.startswith("spark.")}}
