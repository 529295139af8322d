"""The folders of the metadata table, below `.hoodie/metadata` in the store of the table."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from pyhudi.format.timeline.table_version import TABLE_VERSIONS, TableVersion
from pyhudi.table.metadata_table import METADATA_TABLE_FOLDER

PROPERTIES_PATH: Final = f"{METADATA_TABLE_FOLDER}/.hoodie/hoodie.properties"


def inner_version(version: TableVersion) -> TableVersion:
    """The version of the metadata table of a table of this version, with folders relative to the data table.

    With it, every function over timelines works on that of the metadata table through the store of the data table.
    """
    inner = TABLE_VERSIONS[version.number]
    return replace(
        inner,
        timeline_folder=f"{METADATA_TABLE_FOLDER}/{inner.timeline_folder}",
        history_folder=f"{METADATA_TABLE_FOLDER}/{inner.history_folder}",
    )


def partition_folder(partition: str) -> str:
    """The folder of a partition of the metadata table, relative to the data table."""
    return f"{METADATA_TABLE_FOLDER}/{partition}"
