"""Record payload classes of JVM Hudi, and the merge rules that they implement.

Up to version 8, a table names a class that merges its records; version 9 has properties instead. pyhudi applies the
translation of version 9 to tables of every version, and never loads a Java class.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from pyhudi.config.enums import MergeMode, PartialUpdateMode
from pyhudi.config.options_merging import JVM_PACKAGE, merger_name
from pyhudi.config.parsers import Parser
from pyhudi.errors import UnsupportedFeatureError

_PACKAGE = "org.apache.hudi.common.model."
COMMIT_TIME_PAYLOAD = f"{_PACKAGE}OverwriteWithLatestAvroPayload"
EVENT_TIME_PAYLOAD = f"{_PACKAGE}DefaultHoodieRecordPayload"

DEBEZIUM_UNAVAILABLE_VALUE = "__debezium_unavailable_value"
"""The value that Debezium sends in place of a large value that did not change."""

_DEBEZIUM_DELETE = ("_change_operation_type", "d")


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadRule:
    """The merge rule that a payload class implements.

    `ordering_fields` are those that the class uses regardless of the table's; empty if it uses the table's.
    `delete_marker` is the column, and the value of it, that make a row a delete.
    """

    merge_mode: MergeMode
    partial_update_mode: PartialUpdateMode = PartialUpdateMode.NONE
    unavailable_value: str | None = None
    delete_marker: tuple[str, str] | None = None
    ordering_fields: tuple[str, ...] = ()


PAYLOAD_RULES: Mapping[str, PayloadRule] = {
    COMMIT_TIME_PAYLOAD: PayloadRule(merge_mode=MergeMode.COMMIT_TIME_ORDERING),
    EVENT_TIME_PAYLOAD: PayloadRule(merge_mode=MergeMode.EVENT_TIME_ORDERING),
    f"{_PACKAGE}EventTimeAvroPayload": PayloadRule(merge_mode=MergeMode.EVENT_TIME_ORDERING),
    f"{_PACKAGE}PartialUpdateAvroPayload": PayloadRule(
        merge_mode=MergeMode.EVENT_TIME_ORDERING, partial_update_mode=PartialUpdateMode.IGNORE_DEFAULTS
    ),
    f"{_PACKAGE}OverwriteNonDefaultsWithLatestAvroPayload": PayloadRule(
        merge_mode=MergeMode.COMMIT_TIME_ORDERING, partial_update_mode=PartialUpdateMode.IGNORE_DEFAULTS
    ),
    f"{_PACKAGE}AWSDmsAvroPayload": PayloadRule(merge_mode=MergeMode.COMMIT_TIME_ORDERING, delete_marker=("Op", "D")),
    f"{_PACKAGE}debezium.PostgresDebeziumAvroPayload": PayloadRule(
        merge_mode=MergeMode.EVENT_TIME_ORDERING,
        partial_update_mode=PartialUpdateMode.FILL_UNAVAILABLE,
        unavailable_value=DEBEZIUM_UNAVAILABLE_VALUE,
        delete_marker=_DEBEZIUM_DELETE,
        ordering_fields=("_event_lsn",),
    ),
    f"{_PACKAGE}debezium.MySqlDebeziumAvroPayload": PayloadRule(
        merge_mode=MergeMode.EVENT_TIME_ORDERING,
        delete_marker=_DEBEZIUM_DELETE,
        ordering_fields=("_event_bin_file", "_event_pos"),
    ),
}
"""The payload classes that version 9 translates, by full name. All other classes have rules of their own."""

_NAME_OF_CLASS: Mapping[str, str] = {name.rpartition(".")[2]: name for name in PAYLOAD_RULES}
_COUNTS_RECORDS = "RecordCountAvroPayload"
_CUSTOM = PayloadRule(merge_mode=MergeMode.CUSTOM)


def rule_of_payload(name: str) -> PayloadRule:
    """The rule of a payload class, by its full name; the mode CUSTOM for unknown classes."""
    return PAYLOAD_RULES.get(name, _CUSTOM)


def _read_payload(name: str) -> str:
    if name in (_COUNTS_RECORDS, f"{_PACKAGE}{_COUNTS_RECORDS}"):
        return "record_count"
    full_name = _NAME_OF_CLASS.get(name, name)
    if full_name in PAYLOAD_RULES:
        return full_name
    with suppress(ValueError):
        # A custom merger in Python. Loading it later shows whether it exists.
        if not full_name.startswith(JVM_PACKAGE):
            return merger_name(full_name)
    raise UnsupportedFeatureError(
        f"the record payload {name} is not supported by this release: write a merger instead, and name it in "
        "hoodie.write.record.merge.custom.implementation.classes, or here as package.module.Class"
    )


def merger_of_payload(text: str) -> str | None:
    """The merger that the text of a payload option names; None for payload classes of JVM Hudi."""
    with suppress(UnsupportedFeatureError):
        name = _read_payload(text)
        return None if name in PAYLOAD_RULES else name
    return None


PAYLOAD = Parser(_read_payload, "one of " + ", ".join([*_NAME_OF_CLASS, _COUNTS_RECORDS]) + ", or a merger in Python")
