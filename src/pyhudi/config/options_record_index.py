"""Options of the record index: whether there is one, and how many file groups it gets."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.config.option import option
from pyhudi.config.parsers import boolean, fraction, integer


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordIndexOptions:
    """The part of the metadata table that knows the file group of each record key."""

    enabled: bool | None = option(
        "hoodie.metadata.global.record.level.index.enable",
        parse=boolean(),
        default=None,
        doc="A write with `true` builds the record index where there is none: the file group of each record key, for "
        "hoodie.index.type=RECORD_INDEX and for reads by key. Every write keeps it then. `false` does not drop it: "
        "`table.indexes.drop` does.",
        aliases=("hoodie.metadata.record.index.enable",),
    )
    groups_min: int = option(
        "hoodie.metadata.global.record.level.index.min.filegroup.count",
        parse=integer(minimum=1, unit="file groups"),
        default=10,
        doc="The smallest number of file groups of a new record index; later it cannot change.",
        aliases=("hoodie.metadata.record.index.min.filegroup.count",),
    )
    groups_max: int = option(
        "hoodie.metadata.global.record.level.index.max.filegroup.count",
        parse=integer(minimum=1, unit="file groups"),
        default=10_000,
        doc="The largest number of them.",
        aliases=("hoodie.metadata.record.index.max.filegroup.count",),
    )
    growth: float = option(
        "hoodie.metadata.record.index.growth.factor",
        parse=fraction(up_to_one=False),
        default=2.0,
        doc="By how much the records are expected to become more, for the number of file groups.",
    )
    group_bytes_max: int = option(
        "hoodie.metadata.record.index.max.filegroup.size",
        parse=integer(minimum=1, unit="bytes"),
        default=1 << 30,
        doc="How large a file group is meant to become, for the number of file groups: 48 bytes are taken per record.",
    )
    by_partition: bool = option(
        "hoodie.metadata.record.level.index.enable",
        parse=boolean(),
        default=False,
        doc="A write with `true` builds a record index by partition where there is no record index: keys are unique in "
        "partitions, and are looked up in that of their row, for hoodie.index.type=RECORD_LEVEL_INDEX. Every write "
        "keeps it then.",
    )
    groups_min_of_partition: int = option(
        "hoodie.metadata.record.level.index.min.filegroup.count",
        parse=integer(minimum=1, unit="file groups"),
        default=1,
        doc="The smallest number of file groups that a partition of the table has in a new record index by partition.",
    )
    groups_max_of_partition: int = option(
        "hoodie.metadata.record.level.index.max.filegroup.count",
        parse=integer(minimum=1, unit="file groups"),
        default=10,
        doc="The largest number of them.",
    )
