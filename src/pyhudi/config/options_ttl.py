"""Options of the expiry of partitions: how old they may become, and from when their age counts."""

# ruff: noqa: RUF009 - option() declares a field, as dataclasses.field does
from __future__ import annotations

import enum
from dataclasses import dataclass

from pyhudi.config.option import option
from pyhudi.config.parsers import Parser, integer, partition_paths
from pyhudi.errors import UnsupportedFeatureError


class ExpiryStrategy(enum.Enum):
    """From when the age of a partition counts."""

    KEEP_BY_TIME = "KEEP_BY_TIME"
    """Its last change."""
    KEEP_BY_CREATION_TIME = "KEEP_BY_CREATION_TIME"
    """The write that created it."""


_CLASSES = {
    "org.apache.hudi.table.action.ttl.strategy.KeepByTimeStrategy": ExpiryStrategy.KEEP_BY_TIME,
    "org.apache.hudi.table.action.ttl.strategy.KeepByCreationTimeStrategy": ExpiryStrategy.KEEP_BY_CREATION_TIME,
}


def _strategy_of_class(name: str) -> ExpiryStrategy:
    if name not in _CLASSES:
        raise UnsupportedFeatureError("a class of your own may name other partitions, and pyhudi runs no Java")
    return _CLASSES[name]


def _days(text: str) -> int:
    days = int(text)
    if abs(days) > _DAYS_MAX:
        raise ValueError(text)
    return days


_DAYS_MAX = 3_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryOptions:
    """Deleting partitions that have become too old."""

    inline: bool = option(
        "hoodie.partition.ttl.inline",
        default=False,
        doc="Whether a write deletes the partitions that are past their time after its commit.",
    )
    strategy_type: ExpiryStrategy = option(
        "hoodie.partition.ttl.management.strategy.type",
        default=ExpiryStrategy.KEEP_BY_TIME,
        doc="From when the age of a partition counts: its last change, or the write that created it.",
    )
    strategy_class: ExpiryStrategy | None = option(
        "hoodie.partition.ttl.strategy.class",
        parse=Parser(_strategy_of_class, f"one of {', '.join(_CLASSES)}"),
        default=None,
        doc="The same by the name of JVM Hudi's class. It goes before the type.",
    )
    days_retained: int = option(
        "hoodie.partition.ttl.strategy.days.retain",
        parse=Parser(_days, "a whole number of days; 0 and below: no partition expires"),
        default=-1,
        doc="A partition expires when it is older than this many days. By default, and with 0 or less, none does.",
    )
    max_partitions: int = option(
        "hoodie.partition.ttl.strategy.max.delete.partitions",
        parse=integer(minimum=1, unit="partitions"),
        default=1000,
        doc="How many partitions one run deletes at most, the oldest first.",
    )
    partitions: tuple[str, ...] | None = option(
        "hoodie.partition.ttl.strategy.partition.selected",
        parse=partition_paths(),
        default=None,
        doc="Only these partitions expire: their paths, separated by commas.",
    )

    @property
    def strategy(self) -> ExpiryStrategy:
        """From when the age of a partition counts."""
        return self.strategy_class or self.strategy_type
