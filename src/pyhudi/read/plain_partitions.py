"""Scans that also give the rows of folders whose Parquet files are not Hudi's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa

from pyhudi.config.enums import QueryType
from pyhudi.config.read_config import ReadConfig
from pyhudi.errors import ConfigError, SchemaMismatchError, UnsupportedFeatureError
from pyhudi.format.keys.generator import partition_field_names
from pyhudi.format.schema.avro_arrow import normalise
from pyhudi.io.base_file import read_footer
from pyhudi.io.slices.files import SliceFiles
from pyhudi.merge.rules import Merger
from pyhudi.read.partition_columns import plain_fields, values_of_path
from pyhudi.read.scan import ScanPlan, ScanSlice, plan_table_scan
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.plain_partitions import plain_partitions
from pyhudi.table.state import TableState

_FOOTERS_AT_ONCE = 8


def plan_with_plain_partitions(table: TableState, config: ReadConfig, mergers: Sequence[Merger] = ()) -> ScanPlan:
    """`plan_table_scan`, and where the options ask for it also the rows of those folders.

    Raises `ConfigError` where they ask for a state or for changes in the past, too: those rows have no times.
    """
    plan = plan_table_scan(table, config, mergers)
    if not config.plain_partitions:
        return plan
    if config.query_type is QueryType.INCREMENTAL or config.as_of is not None:
        raise ConfigError(
            "hoodie.pyhudi.read.plain.partitions is for the newest state: rows of files that are not Hudi's have no "
            "times; leave it out for time travel and incremental reads"
        )
    return _with_plain_partitions(table, plan)


def _with_plain_partitions(table: TableState, plan: ScanPlan) -> ScanPlan:
    """The scan with the rows of those folders, whose `_hoodie_*` columns are null.

    Columns of the table that a file lacks are null, and the partition columns are those in the names of its folders.
    No index of the metadata table is asked, as none knows these files.

    Raises:
        SchemaMismatchError: a column has another type than in the table; names the file.
        UnsupportedFeatureError: the partition columns cannot be told from the names of the folders.

    Cost: a recursive listing, and the footer of each such file.
    """
    found = plain_partitions(table.storage)
    if not found:
        return plan
    fields = partition_field_names(table.config.values)
    if plain_fields(table.config, fields) != fields:
        raise UnsupportedFeatureError(
            "folders whose files are not Hudi's are read only where the names of folders are values of columns",
            path=table.storage.uri,
            folder=next(iter(found)),
        )
    _check_names(table, fields, found)
    _check_types(table.storage, plan.schema, [info for files in found.values() for info in files])
    path_columns = tuple(dict.fromkeys([*plan.path_columns, *fields]))
    more = tuple(
        ScanSlice(
            SliceFiles(info.path, ()),
            info.size,
            folder,
            values_of_path(table.config, fields, folder, fields, path_columns),
            modified_ms=info.modified_ms,
        )
        for folder, files in found.items()
        for info in files
    )
    return replace(plan, slices=plan.slices + more, path_columns=path_columns, data_skipping=False)


def _check_names(table: TableState, fields: Sequence[str], folders: Iterable[str]) -> None:
    """Raise `UnsupportedFeatureError` for a folder whose name is not written as those of the table's partitions."""
    for folder in folders:
        parts = folder.split("/") if folder else []
        named = [part.startswith(f"{field}=") for part, field in zip(parts, fields, strict=False)]
        if len(parts) != len(fields) or any(has_name is not table.config.hive_style for has_name in named):
            raise UnsupportedFeatureError(
                "a folder with files that are not Hudi's is not named as the partitions of the table are, so the "
                "values of its partition columns are not known; rename it, or move it elsewhere",
                path=table.storage.uri,
                folder=folder,
                columns=list(fields),
                hive_style=table.config.hive_style,
            )


def _check_types(storage: Storage, schema: pa.Schema, files: list[FileInfo]) -> None:
    known = {field.name: field.type for field in schema}
    with ThreadPoolExecutor(_FOOTERS_AT_ONCE) as pool:
        footers = pool.map(lambda info: read_footer(storage, info.path).schema, files)
        for info, stored in zip(files, footers, strict=True):
            for field in normalise(stored):
                if known.get(field.name, field.type) != field.type:
                    raise SchemaMismatchError(
                        f"column {field.name!r} has the type {field.type} in a file that is not Hudi's, and "
                        f"{known[field.name]} in the table",
                        path=info.path,
                        column=field.name,
                    )
