"""Selects the merge rules of a table, from its properties and the mergers that the caller gives."""

from __future__ import annotations

import importlib
import json
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
from pyhudi.merge.log_merge import LogMergeRule
from pyhudi.merge.mergers import RecordCount, merger_from_properties
from pyhudi.merge.rules import Merger, MergeRules


@dataclass(frozen=True, slots=True)
class TableRules:
    """The rules by which a table merges the versions in its logs, and then their result with the stored row.

    The two differ below version 9, where methods of payload classes merge.

    Attributes:
        with_base: The rules for merging with the row of the base file.
        in_logs: The rules for merging the versions in the logs.
        log_merge: How JVM Hudi's record-by-record merge of the logs differs from plain order; None if it does not.
        deletes_reach_base: A delete that is the result of the logs deletes the stored row, whatever its ordering value.
    """

    with_base: MergeRules = field(default_factory=MergeRules)
    in_logs: MergeRules = field(default_factory=MergeRules)
    log_merge: LogMergeRule | None = None
    deletes_reach_base: bool = False


def table_rules_of(config: TableConfig, mergers: Sequence[Merger] = ()) -> TableRules:
    """The rules of a table. `mergers` are the custom mergers that the table may name.

    Raises:
        UnsupportedFeatureError: the merger of the table is neither built in nor given.
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
        LogMergeRule(deletes_compare=config.version.compares_all_deletes, dates_compare=True)
        if by_event_time
        else None,
    )


def check_tombstones(config: TableConfig, rules: TableRules, *, hours: int) -> None:
    """Check that a table which retains tombstones orders its deletes. Without order, late rows look like new ones.

    Raises:
        UnsupportedFeatureError: the table does not order its deletes.
    """
    in_logs = config.table_type is TableType.MERGE_ON_READ
    if hours and (not rules.with_base.ordering_fields or (in_logs and rules.deletes_reach_base)):
        raise UnsupportedFeatureError(
            "hoodie.write.tombstones.retained.hours needs the merge mode EVENT_TIME_ORDERING, and does not work with "
            "merge-on-read tables of version 6, whose logs do not order deletes: set it to 0",
            path=config.path,
            version=config.version.number,
            merge_mode=config.merge_mode.value,
        )


def check_defaults(config: TableConfig, avro_schema: str) -> None:
    """Check that the table has null for the default of each column, if its partial updates ignore defaults.

    With any other default, releases of JVM Hudi differ, as their sources say: the payload classes of 0.15.0 compare
    values, 1.2.0 compares Java objects, so that small numbers and truth values alone can equal a default.

    Raises:
        UnsupportedFeatureError: a column has another default.
    """
    if config.partial_update_mode is not PartialUpdateMode.IGNORE_DEFAULTS or not avro_schema:
        return
    columns = [column["name"] for column in json.loads(avro_schema)["fields"] if column.get("default") is not None]
    if columns:
        raise UnsupportedFeatureError(
            "partial updates of the table ignore values that are the default of their column, and pyhudi compares with "
            "null alone: make null the default of these columns in the table's schema",
            path=config.path,
            columns=", ".join(columns),
            partial_update_mode=config.partial_update_mode.value,
        )


def merges_by_payload_class(config: TableConfig) -> bool:
    """Whether methods of a payload class merge: always in version 6, in version 8 if the strategy id says so."""
    source = config.version.merge_rule
    if source is MergeRuleSource.MODE_OR_PAYLOAD_CLASS:
        return strategy_id(Properties(config.values, config.path)) == PAYLOAD_STRATEGY_ID
    return source is MergeRuleSource.PAYLOAD_CLASS


def _rules_of_version_6(config: TableConfig, rules: MergeRules) -> TableRules:
    """Hudi 0.15.0 merges logs by `preCombine` of the payload class: by ordering values, whole rows in all but one."""
    in_logs = replace(rules, ordering_fields=config.ordering_fields)
    fills_late = _fills_late(rules)
    if not fills_late:
        in_logs = replace(in_logs, partial_updates=PartialUpdateMode.NONE)
    log_rule = LogMergeRule(
        deletes_compare=False,
        rows_follow_deletes=True,
        lower_rows_show=fills_late,
        late_rows_show=fills_late,
        latest_write=fills_late,
    )
    return TableRules(rules, in_logs, log_rule, deletes_reach_base=True)


def _rules_of_payload(config: TableConfig, rules: MergeRules) -> TableRules:
    """Hudi 1.0.2 merges rows by `combineAndGetUpdateValue` of the payload class; deletes by ordering values."""
    fills_late = _fills_late(rules)
    log_rule = LogMergeRule(
        rows_compare=bool(rules.ordering_fields),
        deletes_compare=False,
        dates_compare=True,
        late_rows_show=fills_late,
        latest_write=fills_late,
    )
    return TableRules(rules, replace(rules, ordering_fields=config.ordering_fields), log_rule)


def _fills_late(rules: MergeRules) -> bool:
    """Whether the payload class is PartialUpdateAvroPayload, with which late rows fill nulls of earlier rows."""
    return bool(rules.ordering_fields) and rules.partial_updates is PartialUpdateMode.IGNORE_DEFAULTS


def _merger_of(config: TableConfig, mergers: Sequence[Merger]) -> Merger:
    merger = merger_from_properties(config.values, mergers)
    return merger.ordered_by(config.ordering_fields) if isinstance(merger, RecordCount) else merger


def mergers_of(options: MergingOptions) -> tuple[Merger, ...]:
    """Load the custom mergers that the options name.

    Raises:
        ConfigError: a class cannot be imported, or is not a merger.
    """
    return tuple(_loaded(name) for name in options.mergers if name not in BUILT_IN_MERGERS)


def merger_of_new_table(options: MergingOptions) -> Merger | None:
    """Load the merger that the options name for a new table; None if they name none.

    Raises:
        ConfigError: the options name several mergers, or one that cannot be loaded.
    """
    if not options.mergers:
        return None
    if len(options.mergers) > 1:
        raise ConfigError(f"a new table takes one merger: set {MERGERS_KEY} to one class", mergers=options.mergers)
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
            f"the merger {name.replace(':', '.')} cannot be loaded: {MERGERS_KEY} takes Python classes that can be "
            "imported here and on the executors, and created without arguments; rewrite a Java class in Python",
            cause=str(error),
        ) from error
    if not hasattr(merger, "merge") or not hasattr(merger, "name"):
        raise ConfigError(f"{name} is not a merger: it needs an attribute `name` and a method `merge(older, newer)`")
    return merger
