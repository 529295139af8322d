"""How a table merges versions of a record, from its properties and what the caller gives.

Source: `format/logs-and-indexes.md` 1.5, 1.7.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from pyhudi.config.enums import MergeMode, PartialUpdateMode, TableType
from pyhudi.config.jvm_names import PAYLOAD_STRATEGY_ID
from pyhudi.config.merge_properties import strategy_id
from pyhudi.config.options_merging import BUILT_IN_MERGERS, MERGER_KEY, MERGER_OPTIONS_KEY, MERGERS_KEY, MergingOptions
from pyhudi.config.property_reader import Properties
from pyhudi.config.table_config import TableConfig
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.format.timeline.table_version import MergeRuleSource
from pyhudi.merge.log_folds import LogFold
from pyhudi.merge.mergers import RecordCount, merger_from_properties
from pyhudi.merge.rules import Merger, MergeRules


@dataclass(frozen=True, slots=True)
class TableRules:
    """How a table merges: versions of a record `in_logs`, and what comes of them `with_base`, the stored row.

    The two differ below version 9, where the methods of payload classes merge. `log_fold`: what of Hudi's reading one
    version after the other is to be heeded; None where plain order says it all. `deletes_reach_base`: a delete that the
    logs end with deletes the stored row whatever its ordering value is.
    """

    with_base: MergeRules = field(default_factory=MergeRules)
    in_logs: MergeRules = field(default_factory=MergeRules)
    log_fold: LogFold | None = None
    deletes_reach_base: bool = False


def table_rules_of(config: TableConfig, mergers: Sequence[Merger] = ()) -> TableRules:
    """The rules of a table. `mergers`: those among which that of a CUSTOM table is found.

    Raises `UnsupportedFeatureError` for a table whose merger is neither built in nor given.
    """
    by_event_time = config.merge_mode is MergeMode.EVENT_TIME_ORDERING
    rules = MergeRules(
        ordering_fields=config.ordering_fields if by_event_time else (),
        null_is_zero=config.version.orders_null_as_zero,
        partial_updates=config.partial_update_mode,
        unavailable_value=config.unavailable_value,
        delete_marker=config.delete_marker,
        merger=_merger_of(config, mergers) if config.merge_mode is MergeMode.CUSTOM else None,
    )
    if rules.merger is not None:
        return TableRules(rules, rules)
    if config.version.merge_rule is MergeRuleSource.PAYLOAD_CLASS:
        return _rules_of_version_6(config, rules)
    if not config.ordering_fields:
        return TableRules(rules, rules)
    if merges_by_payload_class(config):
        return _rules_of_payload(config, rules)
    return TableRules(
        rules,
        rules,
        LogFold(deletes_compare=config.version.compares_all_deletes, dates_compare=True) if by_event_time else None,
    )


def check_tombstones(config: TableConfig, rules: TableRules, *, hours: int) -> None:
    """Refuse to remember deletes where they are not ordered, so that no late row could be told from a new one."""
    in_logs = config.table_type is TableType.MERGE_ON_READ
    if hours and (not rules.with_base.ordering_fields or (in_logs and rules.deletes_reach_base)):
        raise UnsupportedFeatureError(
            "hoodie.write.tombstones.retained.hours needs a table that merges by EVENT_TIME_ORDERING, and no "
            "merge-on-read table of version 6, in whose logs deletes are not ordered",
            path=config.path,
            version=config.version.number,
            merge_mode=config.merge_mode.value,
        )


def merges_by_payload_class(config: TableConfig) -> bool:
    """Whether the methods of a payload class merge: always in version 6, in version 8 where the strategy says so."""
    source = config.version.merge_rule
    if source is MergeRuleSource.MODE_OR_PAYLOAD_CLASS:
        return strategy_id(Properties(config.values, config.path)) == PAYLOAD_STRATEGY_ID
    return source is MergeRuleSource.PAYLOAD_CLASS


def _rules_of_version_6(config: TableConfig, rules: MergeRules) -> TableRules:
    """In 0.15.0, a payload's `preCombine` merges what is in the logs: by ordering values, whole rows in all but one."""
    in_logs = replace(rules, ordering_fields=config.ordering_fields)
    fills_late = _fills_late(rules)
    if not fills_late:
        in_logs = replace(in_logs, partial_updates=PartialUpdateMode.NONE)
    fold = LogFold(
        deletes_compare=False,
        rows_follow_deletes=True,
        lower_rows_show=fills_late,
        late_rows_show=fills_late,
        latest_write=fills_late,
    )
    return TableRules(rules, in_logs, fold, deletes_reach_base=True)


def _rules_of_payload(config: TableConfig, rules: MergeRules) -> TableRules:
    """In 1.0.2, a payload's `combineAndGetUpdateValue` merges rows everywhere; deletes go by ordering values."""
    fills_late = _fills_late(rules)
    fold = LogFold(
        rows_compare=bool(rules.ordering_fields),
        deletes_compare=False,
        dates_compare=True,
        late_rows_show=fills_late,
        latest_write=fills_late,
    )
    return TableRules(rules, replace(rules, ordering_fields=config.ordering_fields), fold)


def _fills_late(rules: MergeRules) -> bool:
    """Whether the payload class is the one (PartialUpdate) with which late rows fill what those before them lack."""
    return bool(rules.ordering_fields) and rules.partial_updates is PartialUpdateMode.IGNORE_DEFAULTS


def _merger_of(config: TableConfig, mergers: Sequence[Merger]) -> Merger:
    merger = merger_from_properties(config.values, mergers)
    return merger.ordered_by(config.ordering_fields) if isinstance(merger, RecordCount) else merger


def mergers_of(options: MergingOptions) -> tuple[Merger, ...]:
    """The mergers of one's own that a call names, loaded: objects of the classes that the option lists.

    Raises `ConfigError` for one that cannot be imported or is no merger.
    """
    return tuple(_loaded(name) for name in options.mergers if name not in BUILT_IN_MERGERS)


def merger_of_new_table(options: MergingOptions) -> Merger | None:
    """The one merger that a call names for the table that it makes, loaded; None if it names none.

    Raises `ConfigError` for several, or for one that cannot be loaded.
    """
    if not options.mergers:
        return None
    if len(options.mergers) > 1:
        raise ConfigError(f"a new table has one merger: set {MERGERS_KEY} to it", mergers=options.mergers)
    (name,) = options.mergers
    if name not in BUILT_IN_MERGERS:
        return _loaded(name)
    return merger_from_properties({MERGER_KEY: name, MERGER_OPTIONS_KEY: options.merger_options or ""}, ())


def _loaded(name: str) -> Merger:
    module, _, attribute = name.partition(":")
    try:
        merger: Merger = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"the merger {name.replace(':', '.')} cannot be loaded: {MERGERS_KEY} takes classes in Python that can be "
            "imported here and on the executors, and made without arguments; what a class of the JVM's does has to be "
            "written as one",
            cause=str(error),
        ) from error
    if not hasattr(merger, "merge") or not hasattr(merger, "name"):
        raise ConfigError(f"{name} is no merger: it needs a `name` and a method `merge(older, newer)`")
    return merger
