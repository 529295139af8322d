"""`flatten`: rows of the changes that Debezium and Maxwell send."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import pyarrow as pa

from pyhudi.cdc.debezium import debezium_rows
from pyhudi.cdc.event_columns import ORDERING, POSTGRESQL
from pyhudi.cdc.maxwell import is_maxwell, maxwell_rows
from pyhudi.cdc.moved_rows import fill_moved_rows
from pyhudi.cdc.values import DecimalMode, convert_values
from pyhudi.engine.inputs import opened
from pyhudi.engine.local import as_table
from pyhudi.errors import InvalidRequestError

Stored: TypeAlias = Callable[[pa.Table], pa.Table]
"""A function of record keys, a column each, that gives the rows with these keys."""


def flatten(
    envelopes: object,
    *,
    keys: Sequence[str],
    schema: pa.Schema | None = None,
    stored: Stored | None = None,
    decimals: str = DecimalMode.PRECISE.value,
) -> pa.Table:
    """The rows of change messages of one table: what inserted, updated and deleted rows look like.

    A row of an insert, an update or a snapshot is what the message has after the change; one of a delete what it has
    before it, of which PostgreSQL only knows the key unless the table's replica identity is FULL. Messages without a
    value, which follow deletes, are no rows. The rows are in the order of the messages; a change of a record key gives
    a delete of the old key, and a row with the new one.

    To the columns of the rows come those of JVM Hudi's Debezium sources: `_change_operation_type` (`d` deletes),
    `_upstream_event_processed_ts_ms`, `db_shard_source_partition`, `_event_origin_ts_ms`; of PostgreSQL `_event_lsn`,
    `_event_tx_id`, `_event_xmin`; of MySQL, MariaDB and Maxwell `_event_bin_file`, `_event_pos`, `_event_row`,
    `_event_seq`, and `_event_bin_number`, the number of that file. `table_options` says which of them order changes.

    Args:
        envelopes: the decoded messages of Debezium (columns `op`, `before`, `after`, `source`, `ts_ms`) or of Maxwell
            (`type`, `data`, `old`, `position` and so on); Arrow of any library.
        keys: the record key columns.
        schema: columns with other types than the messages have: decimals from Debezium's base64, also with a scale of
            their own, dates from days, times from numbers in the column's unit or from text, binary from base64; so it
            is in lists and structs. Other columns stay as they are.
        stored: gives the stored rows with some keys. It is asked for rows whose key changed, and of which PostgreSQL
            does not send large values that did not change; with it, these get the value of the old key's row, or, where
            Debezium sends the change again, that of the new key's row.
        decimals: what Debezium's `decimal.handling.mode` is: precise, string or double.

    Raises:
        InvalidRequestError: a message is no change of these sources, or lacks its place in the log; a value is not
            sent and not stored.
        SchemaMismatchError: a value does not fit the type in `schema`.
        UnsupportedFeatureError: changes of several tables, or of another database; TRUNCATE; values of other columns
            than those of text that PostgreSQL did not send.

    Cost: none, and with `stored` one call for a batch with such rows, and one for each column of changes that are sent
    again.
    """
    source, rows = parsed_changes(as_table(opened(envelopes)), keys, schema, decimals, ())
    return fill_moved_rows(rows, keys, ORDERING[source], stored) if source == POSTGRESQL else rows


def parsed_changes(
    messages: pa.Table, keys: Sequence[str], schema: pa.Schema | None, decimals: str, kept: Sequence[str]
) -> tuple[str, pa.Table]:
    """The kind of source, and the rows of messages, each of which counts for itself.

    Values that were not sent are markers still. Columns `kept` are none of the messages, and are those of their rows,
    too. Other arguments, and errors, as of `flatten`. Cost: none.
    """
    mode = _mode(decimals)
    if is_maxwell(messages):
        source, rows = maxwell_rows(messages, keys, kept)
    else:
        source, rows = debezium_rows(messages, kept)
    if schema is not None:
        rows = convert_values(rows, schema, mode)
    missing = [key for key in keys if key not in rows.column_names]
    if not keys or (missing and rows.num_rows):
        raise InvalidRequestError(
            "the record keys must be columns of the changed rows", keys=list(keys), missing=missing
        )
    return source, rows


def _mode(name: str) -> DecimalMode:
    try:
        return DecimalMode(name)
    except ValueError as error:
        known = ", ".join(mode.value for mode in DecimalMode)
        raise InvalidRequestError(f"decimals must be one of {known}", given=name) from error
