"""The properties of a table in the next table version, up or down: what JVM Hudi's own upgrades and downgrades make.

Where JVM Hudi's result would change what the table does, or lose a part of it, ours differs:

- A downgrade to version 6 always leaves a payload class, which is all by which version 6 knows the merge rule. JVM Hudi
  leaves none, and its next upgrade makes an EVENT_TIME_ORDERING table out of any.
- A table without ordering fields becomes COMMIT_TIME_ORDERING in version 8; so does no table with the payload
  EventTimeAvroPayload.
- The archive of version 6 is in `archived`, where the property says so; JVM Hudi leaves the newer folder's name there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Final

from pyhudi.config.enums import MergeMode, PartialUpdateMode, TableType
from pyhudi.config.jvm_names import MERGE_STRATEGY_IDS, PAYLOAD_STRATEGY_ID
from pyhudi.config.merge_properties import (
    DELETE_FIELD_KEY,
    DELETE_MARKER_KEY,
    PARTIAL_UPDATE_KEY,
    PAYLOAD_OF_MERGERS,
    UNAVAILABLE_VALUE_KEY,
)
from pyhudi.config.options_merging import MERGER_KEY
from pyhudi.config.payloads import COMMIT_TIME_PAYLOAD, EVENT_TIME_PAYLOAD, PAYLOAD_RULES, rule_of_payload
from pyhudi.config.table_config import TableConfig
from pyhudi.config.write_config import WriteConfig, split_partition_field
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.format.keys.generator_types import KEY_GENERATOR_CLASSES, KeyGeneratorType
from pyhudi.format.timeline.table_version import V6, V8, V9, TableVersion
from pyhudi.table.metadata_table import INFLIGHT_PARTITIONS_KEY, PARTITIONS_KEY

_PAYLOAD: Final = "hoodie.compaction.payload.class"
_LEGACY_PAYLOAD: Final = "hoodie.table.legacy.payload.class"
_MODE: Final = "hoodie.record.merge.mode"
_STRATEGY: Final = "hoodie.record.merge.strategy.id"
_OLD_STRATEGY: Final = "hoodie.compaction.record.merger.strategy"
_ORDERING: Final = V9.ordering_property
_PRECOMBINE: Final = V8.ordering_property
_GENERATOR_TYPE: Final = "hoodie.table.keygenerator.type"
_GENERATOR_CLASS: Final = "hoodie.table.keygenerator.class"
_PARTITION_FIELDS: Final = "hoodie.table.partition.fields"

_PLAIN_PAYLOADS: Final = frozenset({COMMIT_TIME_PAYLOAD, EVENT_TIME_PAYLOAD})
_EVENT_TIME_ALIAS: Final = "org.apache.hudi.common.model.EventTimeAvroPayload"
_ORDERING_OF_MYSQL: Final = ("_event_bin_file,_event_pos", "_event_seq")
"""The ordering fields of MySqlDebeziumAvroPayload in version 9, and before."""

_HELD: Final = (
    "name",
    "database",
    "table_type",
    "record_key_fields",
    "partition_fields",
    "ordering_fields",
    "key_generator_type",
    "partial_update_mode",
    "unavailable_value",
    "delete_marker",
    "merger_name",
    "merger_options",
    "hive_style",
    "url_encode",
    "timeline_timezone",
    "create_schema",
)
"""What a table keeps in every version, by the field of `TableConfig`. The merge mode is among it, but for upgrades of
version 6, which has none."""


@dataclass(frozen=True, slots=True)
class Leg:
    """One step from a table version to the next one, up or down."""

    origin: TableVersion
    target: TableVersion

    @property
    def is_upgrade(self) -> bool:
        """Whether it leads to a newer version."""
        return self.target.number > self.origin.number

    @property
    def moves_timeline(self) -> bool:
        """Whether the two versions keep their timelines in different folders and forms."""
        return self.origin.layout_version != self.target.layout_version

    def __str__(self) -> str:
        return f"{self.origin} to {self.target}"


def properties_after(leg: Leg, table: TableConfig, config: WriteConfig) -> dict[str, str]:
    """All properties of the table in the version after the leg. The metadata table is not among them.

    Raises:
        UnsupportedFeatureError: the version cannot hold what the table does; the text names it.
        ConfigError: the version needs an option that is missing.
    """
    _check_keys(leg, table)
    changes = _CHANGES[leg.origin.number, leg.target.number](table, config)
    changes["hoodie.table.version"] = str(leg.target.number)
    changes["hoodie.timeline.layout.version"] = str(leg.target.layout_version)
    changes |= {key: "" for key in (PARTITIONS_KEY, INFLIGHT_PARTITIONS_KEY) if table.values.get(key)}
    values = {**table.values, **changes}
    changed = {key: value for key, value in values.items() if value is not None}
    _check_held(leg, table, TableConfig.from_properties(changed, path=table.path))
    return changed


_Changes = dict[str, str | None]
"""New values by key; None for keys that go."""


def _check_keys(leg: Leg, table: TableConfig) -> None:
    is_single = table.key_generator_type is KeyGeneratorType.COMPLEX and len(table.record_key_fields) == 1
    if is_single and leg.origin.names_single_key_field is not leg.target.names_single_key_field:
        raise UnsupportedFeatureError(
            "a COMPLEX key generator with one key field writes `column:value` in version 9, and in older versions "
            "mostly the bare value, so keys would no longer meet those that are stored: write the rows to a new table",
            path=table.path,
        )


def _check_held(leg: Leg, before: TableConfig, after: TableConfig) -> None:
    """Refuse a version in which the table would mean something else."""
    names = _HELD if leg.origin is V6 else (*_HELD, "merge_mode")
    assert set(names) <= {field.name for field in fields(TableConfig)}
    lost = [name for name in names if getattr(before, name) != getattr(after, name)]
    if lost:
        said = ", ".join(f"{name.replace('_', ' ')} {_text(getattr(before, name))}" for name in lost)
        raise UnsupportedFeatureError(
            f"version {leg.target} cannot hold what this table has: {said}: write its rows to a new table",
            path=before.path,
            lost=lost,
        )


def _text(value: object) -> str:
    return str(getattr(value, "value", value))


def _strategy(strategy: str) -> _Changes:
    # JVM Hudi sets the older spelling of this key as well.
    return {_STRATEGY: strategy, _OLD_STRATEGY: strategy}


def _from_6_to_8(table: TableConfig, config: WriteConfig) -> _Changes:
    payload = table.payload_class
    changes: _Changes = {
        "hoodie.table.initial.version": "6",
        "hoodie.timeline.path": "timeline",
        _GENERATOR_TYPE: table.key_generator_type.value,
    }
    if table.key_generator_type is KeyGeneratorType.CUSTOM:
        changes[_PARTITION_FIELDS] = ",".join(_declared_kinds(table, config))
    if payload is not None and payload not in {*_PLAIN_PAYLOADS, _EVENT_TIME_ALIAS}:
        mode, strategy = MergeMode.CUSTOM, PAYLOAD_STRATEGY_ID
        if payload == PAYLOAD_OF_MERGERS:
            strategy = MERGE_STRATEGY_IDS[MergeMode.CUSTOM]
        return {**changes, _MODE: mode.value, **_strategy(strategy)}
    mode = mode_in_version_8(table, config)
    changes[_PAYLOAD] = EVENT_TIME_PAYLOAD if mode is MergeMode.EVENT_TIME_ORDERING else COMMIT_TIME_PAYLOAD
    return {**changes, _MODE: mode.value, **_strategy(MERGE_STRATEGY_IDS[mode])}


def mode_in_version_8(table: TableConfig, config: WriteConfig) -> MergeMode:
    """The merge mode that a table of version 6 gets, whose payload class is none of the user's; as JVM Hudi chooses it.

    A mode in the options has precedence. A merge-on-read table with an ordering field is EVENT_TIME_ORDERING, as Hudi
    0.15 compares it among logs whatever the payload class; and so is any table with an ordering field that names no
    payload class.
    """
    if config.named_merge_mode is not None:
        return config.named_merge_mode
    if table.payload_class in {EVENT_TIME_PAYLOAD, _EVENT_TIME_ALIAS}:
        return MergeMode.EVENT_TIME_ORDERING
    is_ordered = table.payload_class is None or table.table_type is TableType.MERGE_ON_READ
    return MergeMode.EVENT_TIME_ORDERING if is_ordered and table.ordering_fields else MergeMode.COMMIT_TIME_ORDERING


def _declared_kinds(table: TableConfig, config: WriteConfig) -> tuple[str, ...]:
    """The partition fields with their kinds, which version 6 does not store."""
    declared = table.values.get(_PARTITION_FIELDS, "")
    given = config.table.partition_fields or tuple(declared.split(","))
    names, kinds = zip(*(split_partition_field(text) for text in given), strict=True)
    if names != table.partition_fields or not all(kinds):
        raise ConfigError(
            "version 6 does not store the kinds of the partition fields of a CUSTOM key generator: name them in "
            "hoodie.datasource.write.partitionpath.field, such as `city:SIMPLE,ts:TIMESTAMP`",
            partition_fields=table.partition_fields,
        )
    return given


def _from_8_to_9(table: TableConfig, _: WriteConfig) -> _Changes:
    values, payload = table.values, table.payload_class
    changes: _Changes = {}
    if values.get(_MODE) != MergeMode.CUSTOM.value:
        changes[_STRATEGY] = None
    ordering = values.get(_ORDERING) or values.get(_PRECOMBINE)
    if payload is not None and payload in PAYLOAD_RULES:
        rule = rule_of_payload(payload)
        if payload not in _PLAIN_PAYLOADS:
            changes |= {_MODE: rule.merge_mode.value, **_strategy(MERGE_STRATEGY_IDS[rule.merge_mode])}
        changes |= {_LEGACY_PAYLOAD: payload, _PAYLOAD: None}
        if rule.partial_update_mode is not PartialUpdateMode.NONE:
            changes[PARTIAL_UPDATE_KEY] = rule.partial_update_mode.value
        if rule.unavailable_value is not None:
            changes[UNAVAILABLE_VALUE_KEY] = rule.unavailable_value
        if rule.delete_marker is not None:
            changes[DELETE_FIELD_KEY], changes[DELETE_MARKER_KEY] = rule.delete_marker
        ordering = ",".join(rule.ordering_fields) or ordering
    elif payload == PAYLOAD_OF_MERGERS:
        changes[_PAYLOAD] = None
    return changes | ({} if ordering is None else {_ORDERING: ordering, _PRECOMBINE: None})


def _from_9_to_8(table: TableConfig, _: WriteConfig) -> _Changes:
    values, legacy = table.values, table.values.get(_LEGACY_PAYLOAD)
    changes: _Changes = {PARTIAL_UPDATE_KEY: None}
    if table.merge_mode is not MergeMode.CUSTOM:
        changes |= _strategy(MERGE_STRATEGY_IDS[table.merge_mode])
    if legacy in PAYLOAD_RULES:
        changes |= {_LEGACY_PAYLOAD: None, _PAYLOAD: legacy}
        if legacy not in {*_PLAIN_PAYLOADS, _EVENT_TIME_ALIAS}:
            changes |= {_MODE: MergeMode.CUSTOM.value, **_strategy(PAYLOAD_STRATEGY_ID)}
            changes |= dict.fromkeys((DELETE_FIELD_KEY, DELETE_MARKER_KEY, UNAVAILABLE_VALUE_KEY))
    elif values.get(MERGER_KEY):
        changes[_PAYLOAD] = PAYLOAD_OF_MERGERS
    if table.delete_marker is not None and legacy not in PAYLOAD_RULES:
        raise UnsupportedFeatureError(
            "version 8 keeps no delete marker but that of a payload class: write the rows to a new table of version 8",
            path=table.path,
            delete_marker=table.delete_marker,
        )
    stored = values.get(_ORDERING) or values.get(_PRECOMBINE)
    if stored is None:
        return changes
    if stored == _ORDERING_OF_MYSQL[0] and (legacy or "").endswith(".MySqlDebeziumAvroPayload"):
        stored = _ORDERING_OF_MYSQL[1]
    if "," in stored:
        raise UnsupportedFeatureError(
            f"version 8 takes one ordering field, and this table has {stored}: write its rows to a new table",
            path=table.path,
            ordering_fields=table.ordering_fields,
        )
    return changes | {_PRECOMBINE: stored, _ORDERING: None}


def _from_8_to_6(table: TableConfig, _: WriteConfig) -> _Changes:
    changes: _Changes = {
        _MODE: None,
        _STRATEGY: None,
        "hoodie.archivelog.folder": "archived",
        _GENERATOR_CLASS: table.values.get(_GENERATOR_CLASS) or KEY_GENERATOR_CLASSES[table.key_generator_type],
    }
    if table.partition_kinds:
        changes[_PARTITION_FIELDS] = ",".join(table.partition_fields or ())
    payload = table.payload_class
    if table.merge_mode is not MergeMode.CUSTOM and (
        payload is None or rule_of_payload(payload).merge_mode is not table.merge_mode
    ):
        by_event_time = table.merge_mode is MergeMode.EVENT_TIME_ORDERING
        changes[_PAYLOAD] = EVENT_TIME_PAYLOAD if by_event_time else COMMIT_TIME_PAYLOAD
    return changes


_CHANGES: Final[Mapping[tuple[int, int], Callable[[TableConfig, WriteConfig], _Changes]]] = {
    (6, 8): _from_6_to_8,
    (8, 9): _from_8_to_9,
    (9, 8): _from_9_to_8,
    (8, 6): _from_8_to_6,
}


def legs_between(origin: TableVersion, target: TableVersion) -> tuple[Leg, ...]:
    """The legs from one version to another, in order; none between a version and itself."""
    versions = (V6, V8, V9)
    first, last = versions.index(_plain(origin)), versions.index(_plain(target))
    way = versions[first : last + 1] if first <= last else versions[last : first + 1][::-1]
    return tuple(Leg(start, other) for start, other in pairwise(way))


def _plain(version: TableVersion) -> TableVersion:
    """The version itself, for a table's, which has the folders of the table."""
    return {6: V6, 8: V8, 9: V9}[version.number]
