"""Table properties that this release knows, so that others can be refused.

These are the properties of `HoodieTableConfig` in Hudi 0.15.0, 1.0.2 and 1.2.0. Some writers also store their options
in `hoodie.properties`.
"""

from __future__ import annotations

from typing import Final

from pyhudi.config.refused_keys import is_refusable
from pyhudi.config.registry import OPTIONS
from pyhudi.config.unsupported_keys import unsupported_area


def _keys(names: str) -> frozenset[str]:
    return frozenset(f"hoodie.{name}" for name in names.split())


PROPERTIES: Final = _keys(
    """
    archivelog.folder bootstrap.base.path bootstrap.index.class bootstrap.index.enable bootstrap.index.type
    compaction.payload.class compaction.record.merger.strategy database.name
    datasource.write.drop.partition.columns datasource.write.hive_style_partitioning
    datasource.write.partitionpath.urlencode datasource.write.slash.separated.date.partitioning
    meta.fields.mode partition.metafile.use.base.format populate.meta.fields record.merge.mode
    record.merge.strategy.id table.base.file.format table.cdc.enabled table.cdc.supplemental.logging.mode
    table.checksum table.create.schema table.format table.index.defs.path table.initial.version
    table.keygenerator.class table.keygenerator.type table.legacy.payload.class table.log.file.format
    table.metadata.partitions table.metadata.partitions.inflight table.multiple.base.file.formats.enable table.name
    table.ordering.fields table.partial.update.mode table.partition.fields table.partition_extractor_class
    table.precombine.field table.recordkey.fields table.ro.file.format table.rt.file.format
    table.secondary.indexes.metadata table.storage.layout table.timeline.timezone table.type table.version
    timeline.history.path timeline.layout.version timeline.path
    """
)
_PREFIXES: Final = ("hoodie.record.merge.property.", "hoodie.keygen.timebased.", "hoodie.deltastreamer.keygen.")
_OF_TABLES_ALONE: Final = ("hoodie.table.", "hoodie.timeline.", "hoodie.record.merge.")
"""Prefixes of properties that define a table. Options with these prefixes do not make a property known."""


def is_known_property(key: str) -> bool:
    """Whether this release knows a property. Names outside of `hoodie.` belong to the user."""
    if not key.startswith("hoodie.") or key in PROPERTIES or key.startswith(_PREFIXES):
        return True
    return not key.startswith(_OF_TABLES_ALONE) and (
        key in OPTIONS or is_refusable(key) or unsupported_area(key) is not None
    )
