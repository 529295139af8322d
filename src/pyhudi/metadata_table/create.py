"""The properties of the metadata table, which is a table of its own: merge-on-read, of HFiles, keyed by `key`."""

from __future__ import annotations

from pyhudi.config.table_config import TableConfig
from pyhudi.format.metadata_table.schema import KEY
from pyhudi.format.properties import format_properties, table_checksum
from pyhudi.format.timeline.table_version import TABLE_VERSIONS
from pyhudi.metadata_table.folders import PROPERTIES_PATH
from pyhudi.storage.protocol import Storage

_BY_CLASS = {
    "hoodie.table.keygenerator.class": "org.apache.hudi.metadata.HoodieTableMetadataKeyGenerator",
    "hoodie.compaction.record.merger.strategy": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    "hoodie.archivelog.folder": "archived",
}
_BY_TYPE = {
    "hoodie.table.keygenerator.type": "HOODIE_TABLE_METADATA",
    "hoodie.record.merge.mode": "CUSTOM",
    "hoodie.record.merge.strategy.id": "00000000-0000-0000-0000-000000000000",
    "hoodie.archivelog.folder": "history",
    "hoodie.timeline.path": "timeline",
    "hoodie.timeline.history.path": "history",
}


def metadata_table_properties(config: TableConfig) -> dict[str, str]:
    """The properties that JVM Hudi gives the metadata table of a table. It has the version of the table."""
    version, name = TABLE_VERSIONS[config.version.number], f"{config.name}_metadata"
    values = {
        "hoodie.table.name": name,
        "hoodie.table.type": "MERGE_ON_READ",
        "hoodie.table.version": str(version),
        "hoodie.timeline.layout.version": str(version.layout_version),
        "hoodie.table.base.file.format": "HFILE",
        "hoodie.table.recordkey.fields": KEY,
        "hoodie.populate.meta.fields": "false",
        "hoodie.compaction.payload.class": "org.apache.hudi.metadata.HoodieMetadataPayload",
        "hoodie.datasource.write.drop.partition.columns": "false",
        "hoodie.table.checksum": table_checksum("", name),
    }
    if version.has_generator_types:
        return {**values, **_BY_TYPE, "hoodie.table.initial.version": str(version)}
    return {**values, **_BY_CLASS}


def put_metadata_table_properties(storage: Storage, config: TableConfig) -> None:
    """Put the properties of the metadata table, which makes its folder a table. Cost: one put."""
    data = format_properties(metadata_table_properties(config), comment="Properties of a table made by pyhudi")
    storage.put(PROPERTIES_PATH, data)
