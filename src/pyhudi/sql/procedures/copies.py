"""Procedures that give the rows of a query another name: as a table, or as a temporary view."""

from __future__ import annotations

from typing import Any

from pyhudi.errors import ConfigError
from pyhudi.sql.procedures.call_context import CallContext, Given
from pyhudi.sql.procedures.declared import TABLE, Procedure, Rows, columns, flag, needed, text

_MODES = ("overwrite", "append", "ignore", "errorifexists", "error")


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


def _copy_to_table(context: CallContext, given: Given) -> Rows:
    mode = given.text("save_mode").lower()
    if mode not in _MODES:
        raise ConfigError(f"save_mode must be one of {', '.join(_MODES)}", save_mode=mode)
    rows = _rows(context, given, given.words("columns"))
    rows.write.mode(mode).saveAsTable(given.text("new_table"))
    return [(0,)]


def _copy_to_temp_view(context: CallContext, given: Given) -> Rows:
    rows, name = _rows(context, given, ()), given.text("view_name")
    is_global, replaces = given.flag("global"), given.flag("replace")
    if is_global:
        (rows.createOrReplaceGlobalTempView if replaces else rows.createGlobalTempView)(name)
    else:
        (rows.createOrReplaceTempView if replaces else rows.createTempView)(name)
    return [(0,)]


_QUERY = (text("begin_instance_time", ""), text("end_instance_time", ""), text("as_of_instant", ""))

PROCEDURES = (
    Procedure(
        name="copy_to_table",
        what="Writes the rows of a snapshot, read-optimized or incremental query to another table of the session.",
        parameters=(
            TABLE,
            text("query_type", "snapshot"),
            needed("new_table"),
            *_QUERY,
            text("save_mode", "overwrite"),
            text("columns", ""),
        ),
        columns=columns("status int"),
        run=_copy_to_table,
    ),
    Procedure(
        name="copy_to_temp_view",
        what="Makes the rows of a snapshot, read-optimized or incremental query a temporary view.",
        parameters=(
            TABLE,
            text("query_type", "snapshot"),
            needed("view_name"),
            *_QUERY,
            flag("replace", False),
            flag("global", False),
        ),
        columns=columns("status int"),
        run=_copy_to_temp_view,
    ),
)
