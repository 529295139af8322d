"""Making a folder a table, and opening the table of a folder."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from pyhudi.api.arguments import HudiOptions, joined, known_options, table_type_of
from pyhudi.api.handle import TableHandle
from pyhudi.config.location import table_path
from pyhudi.errors import ConfigError
from pyhudi.merge.rules import Merger
from pyhudi.storage.open import open_storage
from pyhudi.table.state import load_table

if TYPE_CHECKING:
    from pyhudi.engine.protocol import Engine
    from pyhudi.merge.rules import Merger


def open_handle(
    path: str | os.PathLike[str], hudi_options: HudiOptions | None, merger: Merger | None, engine: Engine
) -> TableHandle:
    """Open the table of a folder."""
    options = known_options(hudi_options, call="for_path")
    state = load_table(open_storage(table_path(path, options), options))
    if merger is not None and state.config.merger_name != merger.name:
        raise ConfigError(
            f"the merger {merger.name!r} is given, and the table merges by "
            f"{state.config.merger_name or state.config.merge_mode.value}: leave the merger out",
            path=state.config.path,
        )
    return TableHandle(state, options, engine, mergers=() if merger is None else (merger,))


def described_table(
    name: str | None,
    record_key: str | Sequence[str] | None,
    partition_by: str | Sequence[str] | None,
    ordering_fields: str | Sequence[str] | None,
    table_type: str,
    table_version: int | None,
) -> dict[str, str | None]:
    """What a new table is to be, under Hudi's option names."""
    return {
        "hoodie.table.name": name,
        "hoodie.datasource.write.table.type": table_type_of(table_type),
        "hoodie.write.table.version": None if table_version is None else str(table_version),
        "hoodie.datasource.write.recordkey.field": joined(record_key, "record_key"),
        "hoodie.datasource.write.partitionpath.field": joined(partition_by, "partition_by"),
        "hoodie.table.ordering.fields": joined(ordering_fields, "ordering_fields"),
    }


def create(
    path: str | os.PathLike[str],
    schema: pa.Schema,
    described: Mapping[str, str | None],
    merger: Merger | None,
    hudi_options: HudiOptions | None,
) -> TableHandle:
    """Make the folder a table, and open it. `described`: what the table is to be, under Hudi's option names."""
    from pyhudi.config.registry import OPTIONS  # noqa: PLC0415
    from pyhudi.config.write_config import WriteConfig  # noqa: PLC0415 - a table that is opened needs neither
    from pyhudi.write.create import create_for_schema  # noqa: PLC0415

    options = known_options(hudi_options, call="create")
    if not isinstance(schema, pa.Schema):
        raise ConfigError("schema must be a pyarrow.Schema", given=type(schema).__name__)
    path = table_path(path, options)
    given = {name: text for name, text in described.items() if text is not None}
    config = WriteConfig.from_options({"hoodie.table.name": path.rstrip("/").rpartition("/")[2], **given, **options})
    state = create_for_schema(schema, open_storage(path, options), config, options, merger)
    kept = {key: text for key, text in options.items() if not (key in OPTIONS and OPTIONS[key].by_alter)}
    return TableHandle(state, kept, mergers=() if merger is None else (merger,))
