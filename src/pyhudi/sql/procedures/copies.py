"""Procedures that give the rows of a query another name: as a table, or as a temporary view."""

from __future__ import annotations

from typing import Any

from pyhudi.errors import ConfigError
from pyhudi.sql.procedures.call_context import CallContext, Given
from pyhudi.sql.procedures.declared import TABLE, Rows, flag, needed, procedure, text

_MODES = ("overwrite", "append", "ignore", "errorifexists", "error")


_QUERY = (text("begin_instance_time", ""), text("end_instance_time", ""), text("as_of_instant", ""))


def _rows(context: CallContext, given: Given, names: tuple[str, ...]) -> Any:
    """The rows that the call asks for, as a DataFrame of the session."""
    table = context.table(given)
    kind, chosen = given.text("query_type").lower(), names or None
    begin, end = given.text_or_none("begin_instance_time"), given.text_or_none("end_instance_time")
    if kind == "incremental":
        if begin is None or end is None:
            raise ConfigError("an incremental query needs begin_instance_time and end_instance_time")
        return table.changes(_moment(begin), end, columns=chosen).to_df(context.spark)
    as_of = given.text_or_none("as_of_instant")
    return table.scan(chosen, as_of=as_of, query_type=kind).to_df(context.spark)


def _moment(text: str) -> str:
    """JVM Hudi's way to say from the beginning."""
    return "0" * 17 if text in {"000", "0", "earliest"} else text


@procedure(
    TABLE,
    text("query_type", "snapshot"),
    needed("new_table"),
    *_QUERY,
    text("save_mode", "overwrite"),
    text("columns", ""),
    answer="status int",
)
def copy_to_table(context: CallContext, given: Given) -> Rows:
    """Writes the rows of a snapshot, read-optimized or incremental query to another table of the session."""
    mode = given.text("save_mode").lower()
    if mode not in _MODES:
        raise ConfigError(f"save_mode must be one of {', '.join(_MODES)}", save_mode=mode)
    rows = _rows(context, given, given.words("columns"))
    rows.write.mode(mode).saveAsTable(given.text("new_table"))
    return [(0,)]


@procedure(
    TABLE,
    text("query_type", "snapshot"),
    needed("view_name"),
    *_QUERY,
    flag("replace", False),
    flag("global", False),
    answer="status int",
)
def copy_to_temp_view(context: CallContext, given: Given) -> Rows:
    """Makes the rows of a snapshot, read-optimized or incremental query a temporary view."""
    rows, name = _rows(context, given, ()), given.text("view_name")
    is_global, replaces = given.flag("global"), given.flag("replace")
    if is_global:
        (rows.createOrReplaceGlobalTempView if replaces else rows.createGlobalTempView)(name)
    else:
        (rows.createOrReplaceTempView if replaces else rows.createTempView)(name)
    return [(0,)]
