"""Options of markers, by which a write announces its files before it begins them, and of looking at those of others."""

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
            f"{_WITH_LOCKS} holds a lock per file group in every task, which pyhudi has no need of: use "
            f"{EarlyDetectionStrategy.BY_TASKS.value}; of two writers that it lets through at the same moment, one "
            "loses at its commit"
        )
    if short not in _STRATEGIES:
        raise ValueError(name)
    return _STRATEGIES[short]


EARLY_STRATEGY = Parser(_read_strategy, f"one of {', '.join(_STRATEGIES)}, with or without its package")


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkerOptions:
    """How a write announces its files, and whether it looks for other writers' announcements first."""

    keeping: MarkersType = option(
        "hoodie.write.markers.type",
        parse=one_of(MarkersType),
        default=MarkersType.DIRECT,
        doc="DIRECT: each task puts an empty file per data file. TIMELINE_SERVER_BASED, the JVM's default: a service in"
        " the driver keeps the markers of all tasks in a few files, which takes fewer requests of an object store where"
        " a write makes thousands of files; not through Spark Connect.",
    )
    detects_early: bool = option(
        "hoodie.write.concurrency.early.conflict.detection.enable",
        parse=boolean(),
        default=False,
        doc="Whether a write gives up before it rewrites a file group that another live writer is writing, instead of"
        " at its commit. Saves work; what is allowed does not change.",
    )
    early_strategy: EarlyDetectionStrategy | None = option(
        "hoodie.write.concurrency.early.conflict.detection.strategy",
        parse=EARLY_STRATEGY,
        default=None,
        doc="Who looks: the tasks (with DIRECT markers) or the service; follows from the type of the markers.",
    )
    early_checks_commits: bool = option(
        "hoodie.write.concurrency.early.conflict.check.commit.conflict",
        parse=boolean(),
        default=False,
        doc="Whether early detection also looks at writes that were completed since this one began, which costs a"
        " request for each of them.",
    )


def marker_problems(options: MarkerOptions) -> list[str]:
    """What of these options does not go together, in words; empty where all does."""
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
