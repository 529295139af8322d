"""Table properties that say how versions of a record merge: reading them, and making those of a new table.

Version 6 has a payload class; version 8 a mode, a strategy id and a payload class; version 9 a mode and merge
properties. New tables get the properties that Hudi 0.15.0, 1.0.2 and 1.2.0 write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyhudi.config.enums import MergeMode, PartialUpdateMode
from pyhudi.config.jvm_names import MERGE_STRATEGY_IDS, PAYLOAD_STRATEGY_ID, merge_mode_of_strategy
from pyhudi.config.options_merging import MERGE_PROPERTY_PREFIX, MERGER_KEY, MERGER_OPTIONS_KEY, MERGERS_KEY
from pyhudi.config.payloads import (
    COMMIT_TIME_PAYLOAD,
    DEBEZIUM_UNAVAILABLE_VALUE,
    EVENT_TIME_PAYLOAD,
    PayloadRule,
    rule_of_payload,
)
from pyhudi.config.property_reader import Properties
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import ConfigError, CorruptDataError
from pyhudi.format.timeline.table_version import MergeRuleSource, TableVersion

PAYLOAD_OF_MERGERS = "pyhudi.merger"
"""The payload class of tables with a merger of pyhudi below version 9. No such class exists, so JVM Hudi fails.

Hudi 0.15.0 has no other way to refuse a table; 1.0.2 reads by the merge strategy, but upserts by the payload class.
"""

PARTIAL_UPDATE_KEY = "hoodie.table.partial.update.mode"
DELETE_FIELD_KEY = f"{MERGE_PROPERTY_PREFIX}hoodie.payload.delete.field"
DELETE_MARKER_KEY = f"{MERGE_PROPERTY_PREFIX}hoodie.payload.delete.marker"
UNAVAILABLE_VALUE_KEY = f"{MERGE_PROPERTY_PREFIX}hoodie.write.partial.update.unavailable.value"
_KNOWN_MERGE_PROPERTIES = {
    DELETE_FIELD_KEY,
    DELETE_MARKER_KEY,
    UNAVAILABLE_VALUE_KEY,
    MERGER_KEY,
    MERGER_OPTIONS_KEY,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging:
    """The merge rule of a table of any version, in the terms of `TableConfig`."""

    payload_class: str | None
    mode: MergeMode
    ordering_fields: tuple[str, ...]
    partial_update_mode: PartialUpdateMode
    unavailable_value: str | None
    delete_marker: tuple[str, str] | None
    merger_name: str | None
    merger_options: str | None


def stored_ordering_fields(properties: Properties) -> tuple[str, ...]:
    """The ordering fields of the properties, in the spelling of any version."""
    return properties.names("hoodie.table.ordering.fields", "hoodie.table.precombine.field")


def strategy_id(properties: Properties) -> str | None:
    """The merge strategy id of the properties, in the spelling of any version."""
    return properties.text("hoodie.record.merge.strategy.id", "hoodie.compaction.record.merger.strategy")


def read_merging(properties: Properties, version: TableVersion) -> Merging:
    """Read the merge rule from a table's properties.

    Explicit properties have precedence over the rule of the payload class. The classes for Debezium are an exception:
    their own ordering columns have precedence over those of the table.

    Raises:
        CorruptDataError: a value is illegal, or one half of a delete marker is missing.
    """
    payload_class = properties.text("hoodie.compaction.payload.class", "hoodie.table.legacy.payload.class")
    rule = rule_of_payload(payload_class) if payload_class else None
    ordering_fields = stored_ordering_fields(properties)
    mode = _read_mode(properties, version, rule, has_ordering=bool(ordering_fields))
    # In Hudi 1.0.2, a mode that differs from the mode of the payload class makes the class meaningless.
    if rule is None or rule.merge_mode is not mode:
        rule = PayloadRule(merge_mode=mode)
    partial = properties.parsed(
        PARTIAL_UPDATE_KEY, rule.partial_update_mode, lambda text: PartialUpdateMode(text.upper())
    )
    unavailable = properties.text(UNAVAILABLE_VALUE_KEY) or rule.unavailable_value or DEBEZIUM_UNAVAILABLE_VALUE
    return Merging(
        payload_class=payload_class,
        mode=mode,
        ordering_fields=rule.ordering_fields or ordering_fields,
        partial_update_mode=partial,
        unavailable_value=unavailable if partial is PartialUpdateMode.FILL_UNAVAILABLE else None,
        delete_marker=_read_delete_marker(properties) or rule.delete_marker,
        merger_name=properties.text(MERGER_KEY) if mode is MergeMode.CUSTOM else None,
        merger_options=properties.text(MERGER_OPTIONS_KEY) if mode is MergeMode.CUSTOM else None,
    )


def unknown_merge_properties(values: Mapping[str, str]) -> tuple[str, ...]:
    """The merge properties whose effect this release does not know."""
    known = {key for key in values if key.startswith(MERGE_PROPERTY_PREFIX)} - _KNOWN_MERGE_PROPERTIES
    return tuple(sorted(known))


def _read_mode(
    properties: Properties, version: TableVersion, rule: PayloadRule | None, *, has_ordering: bool
) -> MergeMode:
    """The mode of the table, or the default of its version.

    Version 6 uses the payload class. Its strategy id is the same in all tables and has no meaning. Versions 8 and 9
    use the strategy id, or else the presence of ordering fields. If the mode is CUSTOM and the table names no merger of
    pyhudi, the payload class decides.
    """
    strategy = strategy_id(properties)
    only_payload_class = version.merge_rule is MergeRuleSource.PAYLOAD_CLASS
    if properties.text("hoodie.record.merge.mode"):
        mode = properties.parsed("hoodie.record.merge.mode", MergeMode.CUSTOM, lambda text: MergeMode(text.upper()))
    elif strategy and not only_payload_class:
        mode = merge_mode_of_strategy(strategy)
    elif rule:
        mode = rule.merge_mode
    else:
        mode = _default_mode(version, has_ordering=has_ordering)
    by_payload = only_payload_class or strategy in {None, PAYLOAD_STRATEGY_ID}
    if mode is MergeMode.CUSTOM and by_payload and rule and not properties.text(MERGER_KEY):
        return rule.merge_mode
    return mode


def _default_mode(version: TableVersion, *, has_ordering: bool) -> MergeMode:
    """The mode of a table that names none. If only a payload class could, it is the mode of the default class."""
    if has_ordering and version.merge_rule is not MergeRuleSource.PAYLOAD_CLASS:
        return MergeMode.EVENT_TIME_ORDERING
    return MergeMode.COMMIT_TIME_ORDERING


def _read_delete_marker(properties: Properties) -> tuple[str, str] | None:
    column, value = properties.text(DELETE_FIELD_KEY), properties.text(DELETE_MARKER_KEY)
    if column is None and value is None:
        return None
    if column is None or value is None:
        missing = DELETE_FIELD_KEY if column is None else DELETE_MARKER_KEY
        raise CorruptDataError(
            f"{missing} is missing: a delete marker needs both a field and a value", path=properties.path
        )
    return column, value


def new_merge_properties(config: WriteConfig, merger: Mapping[str, str] | None = None) -> dict[str, str]:
    """The merge properties of a new table, as JVM Hudi writes them for the table's version.

    `merger` are the properties that name the table's merger; without it, they come from the options.

    Raises:
        ConfigError: a required option is missing, or the table version does not support an option.
    """
    table, version = config.table, config.new_table_version
    ordering = table.ordering_fields or ()
    if len(ordering) > 1 and not version.has_several_ordering_fields:
        raise ConfigError(
            f"a table of version {version} takes one ordering field: give one, or use version 9",
            ordering_fields=ordering,
        )
    rule = rule_of_payload(table.payload) if table.payload else None
    by_default = _default_mode(version, has_ordering=bool(ordering)) if merger is None else MergeMode.CUSTOM
    mode = config.merge_mode or by_default
    if merger is not None and mode is not MergeMode.CUSTOM:
        raise ConfigError(
            f"the options name the merge mode {mode.value}, but a merger is given: leave one of them out",
            merger=merger[MERGER_KEY],
        )
    forced = rule.ordering_fields if rule else ()
    if mode is MergeMode.EVENT_TIME_ORDERING and not (ordering or forced):
        raise ConfigError("EVENT_TIME_ORDERING needs hoodie.table.ordering.fields")
    own = _merger_properties(config, merger) if mode is MergeMode.CUSTOM else {}
    by_mode = version.merge_rule is MergeRuleSource.MODE
    stored = (forced or ordering) if by_mode else ordering
    properties = dict(own)
    if stored:
        properties[version.ordering_property] = ",".join(stored)
    if by_mode:
        return properties | _properties_of_mode(config, mode, rule)
    if config.delete_marker is not None:
        raise ConfigError(
            f"a table of version {version} keeps no delete marker: use version 9, or a payload class that has one"
        )
    default = EVENT_TIME_PAYLOAD if mode is MergeMode.EVENT_TIME_ORDERING else COMMIT_TIME_PAYLOAD
    payload = PAYLOAD_OF_MERGERS if own else table.payload or default
    if version.merge_rule is MergeRuleSource.MODE_OR_PAYLOAD_CLASS:
        return properties | _properties_of_mode_or_class(payload, mode)
    return properties | {
        "hoodie.compaction.payload.class": payload,
        # JVM Hudi writes this id into every table of version 6, whatever its payload class.
        "hoodie.compaction.record.merger.strategy": MERGE_STRATEGY_IDS[MergeMode.EVENT_TIME_ORDERING],
    }


def _properties_of_mode(config: WriteConfig, mode: MergeMode, rule: PayloadRule | None) -> dict[str, str]:
    properties = {"hoodie.record.merge.mode": mode.value}
    if mode is MergeMode.CUSTOM:
        properties["hoodie.record.merge.strategy.id"] = MERGE_STRATEGY_IDS[mode]
    if rule is not None and config.table.payload is not None:
        properties["hoodie.table.legacy.payload.class"] = config.table.payload
        if rule.partial_update_mode is not PartialUpdateMode.NONE:
            properties[PARTIAL_UPDATE_KEY] = rule.partial_update_mode.value
        if rule.unavailable_value is not None:
            properties[UNAVAILABLE_VALUE_KEY] = rule.unavailable_value
    marker = config.delete_marker or (rule.delete_marker if rule else None)
    if marker is not None:
        properties[DELETE_FIELD_KEY], properties[DELETE_MARKER_KEY] = marker
    return properties


def _properties_of_mode_or_class(payload: str, mode: MergeMode) -> dict[str, str]:
    """Version 8 has a mode for two payload classes. For all other classes it stores that the class merges."""
    if payload not in {COMMIT_TIME_PAYLOAD, EVENT_TIME_PAYLOAD, PAYLOAD_OF_MERGERS}:
        mode, strategy = MergeMode.CUSTOM, PAYLOAD_STRATEGY_ID
    else:
        strategy = MERGE_STRATEGY_IDS[mode]
    return {
        "hoodie.record.merge.mode": mode.value,
        "hoodie.record.merge.strategy.id": strategy,
        "hoodie.compaction.payload.class": payload,
    }


def _merger_properties(config: WriteConfig, merger: Mapping[str, str] | None) -> dict[str, str]:
    if merger is not None:
        return dict(merger)
    names, options = config.merging.mergers, config.merging.merger_options
    if len(names) != 1:
        raise ConfigError(
            f"a new table of the merge mode CUSTOM needs one merger: set {MERGERS_KEY} to one class", mergers=names
        )
    return {MERGER_KEY: names[0]} | ({MERGER_OPTIONS_KEY: options} if options else {})
