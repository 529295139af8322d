"""Options of markers, which announce files before they are written, and of early conflict detection."""

# ruff: noqa: RUF009 - option() declares a field, as dataclasses.field does
from __future__ import annotations

from dataclasses import dataclass

from pyhudi.config.enums import EarlyDetectionStrategy
from pyhudi.config.option import Parser, option
from pyhudi.config.parsers import boolean, one_of
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.markers import MarkersType

_WITH_LOCKS = "SimpleTransactionDirectMarkerBasedDetectionStrategy"
_STRATEGIES = {strategy.value: strategy for strategy in EarlyDetectionStrategy}


def _read_strategy(name: str) -> EarlyDetectionStrategy:
    short = name.rpartition(".")[2]
    if short == _WITH_LOCKS:
        raise UnsupportedFeatureError(
            f"{_WITH_LOCKS} holds a lock per file group in every task, which pyhudi does not need: use "
            f"{EarlyDetectionStrategy.BY_TASKS.value}; if it lets two conflicting writers pass at the same time, one "
            "of them fails at its commit"
        )
    if short not in _STRATEGIES:
        raise ValueError(name)
    return _STRATEGIES[short]


EARLY_STRATEGY = Parser(_read_strategy, f"one of {', '.join(_STRATEGIES)}, with or without its package")


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerOptions:
    """How a write announces its files, and whether it first checks the announcements of other writers."""

    keeping: MarkersType = option(
        "hoodie.write.markers.type",
        parse=one_of(MarkersType),
        default=MarkersType.DIRECT,
        doc="DIRECT: each task creates an empty file per data file. TIMELINE_SERVER_BASED, the default of JVM Hudi: a"
        " service in the driver keeps the markers of all tasks in a few files. It needs fewer requests to an object"
        " store if a write creates thousands of files, and does not work through Spark Connect.",
    )
    detects_early: bool = option(
        "hoodie.write.concurrency.early.conflict.detection.enable",
        parse=boolean(),
        default=False,
        doc="Whether a write fails before it rewrites a file group that another live writer is writing, instead of"
        " at its commit. This saves work; the conflicts are the same.",
    )
    early_strategy: EarlyDetectionStrategy | None = option(
        "hoodie.write.concurrency.early.conflict.detection.strategy",
        parse=EARLY_STRATEGY,
        default=None,
        doc="Whether the tasks (with DIRECT markers) or the marker service detect conflicts; follows from the type of"
        " the markers.",
    )
    early_checks_commits: bool = option(
        "hoodie.write.concurrency.early.conflict.check.commit.conflict",
        parse=boolean(),
        default=False,
        doc="Whether early detection also checks writes that completed since this one began. Costs a request for each"
        " of them.",
    )


def marker_problems(options: MarkerOptions) -> list[str]:
    """Descriptions of contradictions between these options; empty if there are none."""
    strategy_of = {
        MarkersType.DIRECT: EarlyDetectionStrategy.BY_TASKS,
        MarkersType.TIMELINE_SERVER_BASED: EarlyDetectionStrategy.BY_SERVICE,
    }
    named = options.early_strategy
    if named is None or named is strategy_of[options.keeping]:
        return []
    problem = (
        f"{named.value} does not go with hoodie.write.markers.type={options.keeping.value}: leave "
        "hoodie.write.concurrency.early.conflict.detection.strategy out"
    )
    return [problem]
