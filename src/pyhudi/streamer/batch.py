"""The rows of a batch: what a source gives, transformed, with the columns of the table."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.local import as_table
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.format.keys.generator import KeyGenerator, key_generator_from_table
from pyhudi.streamer.change_data import check_units, keys_of_changes
from pyhudi.streamer.error_table import ErrorTable, error_rows, without_key_or_value
from pyhudi.streamer.settings import Settings
from pyhudi.streamer.sources.apart import RECORD
from pyhudi.streamer.sources.protocol import Pull, Rows
from pyhudi.streamer.transformers import derived_columns, made_without, transformed
from pyhudi.table.schema import load_table_schema
from pyhudi.table.state import TableState
from pyhudi.write.create import table_properties

_NONE: Final = pa.schema([]).empty_table()


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """`rows` of the table, and `errors` of the error table, of which there are `failed`; of kinds for the engine."""

    rows: Any
    errors: Any = None
    failed: int = 0


def batch_of(
    pull: Pull | None,
    settings: Settings,
    table: TableState | None,
    config: WriteConfig,
    errors: ErrorTable | None,
) -> Batch | None:
    """What is to be written; None where there are no rows, and nothing says which columns they would have.

    Without columns there can be no table, and so no commit: what was read without a row is read again. Raises what the
    source and the transformers raise. Cost: that of reading the source, and a read of the table's schema.
    """
    schema = None if table is None else load_table_schema(table)
    stored = None if schema is None else schema.arrow
    if pull is not None and pull.items and errors is not None:
        return _batch_apart(pull, settings, table, config, errors, stored)
    wanted, changes = settings.schema, settings.changes
    rows: Rows = _NONE
    if pull is not None and pull.items:
        known = wanted if wanted is not None else stored
        rows = pull.read(wanted, stored) if changes is None else pull.read(None, changes.types(known))
        if changes is not None and rows.schema.names:
            messages = as_table(rows)
            if wanted is None and stored is not None:
                check_units(messages, stored)
            changed = changes.rows(messages, table, config, known)
            rows = changed if changed.num_rows else _NONE  # messages about the schema are no rows
    if not rows.schema.names:
        if stored is not None:
            return Batch(rows=stored.empty_table())
        if wanted is None:
            return None
        rows = wanted.empty_table()
    return Batch(rows=_transformed(as_table(rows), settings, stored) if settings.transforms else rows)


def _batch_apart(
    pull: Pull,
    settings: Settings,
    table: TableState | None,
    config: WriteConfig,
    errors: ErrorTable,
    stored: pa.Schema | None,
) -> Batch | None:
    """The rows of a batch, and those of the error table."""
    if pull.read_apart is None:
        raise UnsupportedFeatureError(
            "error tables are for topics and files: leave hoodie.errortable.enable out",
            source_class=settings.source_class,
        )
    wanted, changes = settings.schema, settings.changes
    if changes is None:
        apart = pull.read_apart(wanted, stored, fits=errors.settings.checks_types)
        rows = apart.rows
    else:
        schema = wanted if wanted is not None else stored
        checked = schema if wanted is not None or errors.settings.checks_types else None
        apart = pull.read_apart(
            None,
            changes.types(schema),
            fits=False,
            check=functools.partial(changes.check, keys=keys_of_changes(table, config), schema=checked),
        )
        if wanted is None and stored is not None:
            check_units(apart.rows, stored)
        rows = changes.rows(apart.rows, table, config, schema) if apart.rows.num_rows else _NONE
        rows = rows if rows.num_rows else _NONE  # messages about the schema are no rows
    failed, lost = apart.failed, _NONE
    if rows.schema.names:
        rows = _transformed(rows, settings, stored)
        if errors.settings.checks_rows:
            keys = keys_of(settings, table, config)
            # A delete may know no more than the key, so nothing else of change data is asked for.
            rows, without, lost = without_key_or_value(rows, keys, stored if changes is None else None)
            failed += tuple(without)
        rows = rows.drop([RECORD]) if RECORD in rows.column_names else rows
    elif stored is not None:
        rows = stored.empty_table()
    elif wanted is not None:
        rows = transformed(wanted.empty_table(), settings.transforms)
    elif failed:
        raise without_columns(failed[0].reason, len(failed))
    else:
        return None
    return Batch(rows=rows, errors=error_rows(errors.target, apart, failed, lost), failed=len(failed))


def without_columns(reason: str, records: int) -> ConfigError:
    """The error for a new table all of whose records failed. `reason`: of the first one."""
    return ConfigError(
        "no record of the first batch can be read, and nothing says which columns the new table has: give them as"
        " schema, or by a schema provider",
        reason=reason,
        records=records,
    )


def _transformed(rows: pa.Table, settings: Settings, stored: pa.Schema | None) -> pa.Table:
    """The rows after the transformers, which are given no column that they made themselves in earlier batches.

    A source fills the columns of the table in that a batch has no values of.
    """
    filled = [
        name
        for name in (() if stored is None else stored.names)
        if name in rows.column_names and rows[name].null_count == rows.num_rows
    ]
    derived = derived_columns(rows.schema, filled, settings.transforms, made_without)
    return transformed(rows.drop_columns(derived), settings.transforms)


def keys_of(settings: Settings, table: TableState | None, config: WriteConfig) -> KeyGenerator:
    """What makes the record keys of the rows of a streamer. Cost: none."""
    if table is None:
        return key_generator_from_table(table_properties(config), config.new_table_version, settings.options)
    return key_generator_from_table(table.config.values, table.config.version, settings.options)
