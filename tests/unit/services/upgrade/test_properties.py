"""The properties of upgraded and downgraded tables beside those that JVM Hudi 1.2.0 makes of the same tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyhudi.config.enums import MergeMode
from pyhudi.config.table_config import TableConfig
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.format.timeline.table_version import V6, V8, V9, table_version
from pyhudi.services.upgrade.properties import legs_between, properties_after

MADE_BY_JVM_HUDI = json.loads((Path(__file__).parent / "jvm_hudi_properties.json").read_text(encoding="utf-8"))
"""Properties of tables of each merge rule and key generator, and what JVM Hudi's procedures change in them."""

KINDS = {"hoodie.datasource.write.partitionpath.field": "p:SIMPLE,q:TIMESTAMP"}
STRATEGY_KEYS = {"hoodie.record.merge.strategy.id", "hoodie.compaction.record.merger.strategy"}
RULE_KEYS = {"hoodie.record.merge.mode", "hoodie.compaction.payload.class", *STRATEGY_KEYS}
PAYLOADS = "org.apache.hudi.common.model."


def changed(before: dict[str, str], to: int, **options: str) -> dict[str, str]:
    table = TableConfig.from_properties(before, path="p")
    [leg] = legs_between(table.version, table_version(to))
    return properties_after(leg, table, WriteConfig.from_options(options))


def ours_and_jvm_hudis(made: dict[str, Any]) -> dict[str, tuple[str | None, str | None]]:
    """The properties in which the two results differ."""
    ours = changed(made["before"], made["to"], **(KINDS if made["name"] == "custom" else {}))
    theirs = {**made["before"], **made["changed"]}
    return {key: (ours.get(key), theirs.get(key)) for key in {*ours, *theirs} if ours.get(key) != theirs.get(key)}


@pytest.mark.parametrize("to", [8, 9])
def test_properties_of_8_and_9_are_those_of_jvm_hudi(to: int) -> None:
    cases = [made for made in MADE_BY_JVM_HUDI if made["to"] == to and made["before"]["hoodie.table.version"] != "6"]
    assert len(cases) > 16
    assert [ours_and_jvm_hudis(made) for made in cases] == [{}] * len(cases)


def test_properties_of_an_upgrade_from_6_are_those_of_jvm_hudi_but_where_it_forgets_the_rule() -> None:
    cases = [made for made in MADE_BY_JVM_HUDI if made["before"]["hoodie.table.version"] == "6"]
    differing = {made["name"]: ours_and_jvm_hudis(made) for made in cases}
    # JVM Hudi's own downgrade left no payload class, which its upgrade takes for event time, without an ordering field.
    forgotten = {"plain", "mor_plain", "nonpart", "complex", "timestamp", "custom"}
    assert {name for name, keys in differing.items() if RULE_KEYS & keys.keys()} <= {*forgotten, "event_time"}
    for name, keys in differing.items():
        assert keys.keys() <= {*RULE_KEYS, *(["hoodie.table.partition.fields"] if name == "custom" else [])}


def test_properties_of_6_are_those_of_jvm_hudi_with_the_rule_and_the_archive_that_it_forgets() -> None:
    for made in (made for made in MADE_BY_JVM_HUDI if made["to"] == 6):
        differing = ours_and_jvm_hudis(made)
        assert differing.pop("hoodie.archivelog.folder", ("archived", "history")) == ("archived", "history")
        payload = differing.pop("hoodie.compaction.payload.class", None)
        assert payload is None or payload[1] is None
        if made["name"] == "custom":
            assert differing.pop("hoodie.table.partition.fields") == ("p,q", "p:SIMPLE,q:TIMESTAMP")
        assert differing == {}


@pytest.mark.parametrize("made", [made for made in MADE_BY_JVM_HUDI if made["to"] == 6], ids=lambda made: made["name"])
def test_downgrade_and_upgrade_keep_the_merge_rule(made: dict[str, Any]) -> None:
    before = TableConfig.from_properties(made["before"], path="p")
    options = KINDS if made["name"] == "custom" else {}
    after = TableConfig.from_properties(changed(changed(made["before"], 6), 8, **options), path="p")
    # Among logs, Hudi 0.15 goes by the ordering field under every payload class, and so does version 8 after it.
    forced = made["name"] == "mor_ordering_commit"
    assert after.merge_mode is (MergeMode.EVENT_TIME_ORDERING if forced else before.merge_mode)
    assert after.ordering_fields == before.ordering_fields
    assert after.partial_update_mode is before.partial_update_mode
    assert after.delete_marker == before.delete_marker


def test_merge_mode_of_the_options_is_that_of_an_upgraded_table() -> None:
    before = next(
        made["before"]
        for made in MADE_BY_JVM_HUDI
        if made["name"] == "mor_ordering_commit" and made["before"]["hoodie.table.version"] == "6"
    )
    after = changed(before, 8, **{"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"})
    assert after["hoodie.record.merge.mode"] == "COMMIT_TIME_ORDERING"
    assert after["hoodie.compaction.payload.class"].endswith("OverwriteWithLatestAvroPayload")


def of_version_9(**more: str) -> dict[str, str]:
    [before] = [
        made["before"]
        for made in MADE_BY_JVM_HUDI
        if made["name"] == "ordering" and made["before"]["hoodie.table.version"] == "9"
    ]
    return {**before, **{key.replace("__", "."): value for key, value in more.items()}}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"hoodie.table.ordering.fields": "ts,id"}, "ordering field"),
        ({"hoodie.table.partial.update.mode": "IGNORE_DEFAULTS"}, "partial update mode IGNORE_DEFAULTS"),
        (
            {
                "hoodie.record.merge.property.hoodie.payload.delete.field": "Op",
                "hoodie.record.merge.property.hoodie.payload.delete.marker": "D",
            },
            "delete marker",
        ),
    ],
)
def test_what_version_8_cannot_hold_is_refused_by_name(more: dict[str, str], words: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=words):
        changed({**of_version_9(), **more}, 8)


def test_complex_key_of_one_field_is_refused_between_8_and_9() -> None:
    keys = {"hoodie.table.keygenerator.type": "COMPLEX", "hoodie.table.partition.fields": "p,q"}
    with pytest.raises(UnsupportedFeatureError, match="COMPLEX"):
        changed({**of_version_9(), **keys}, 8)


def test_custom_key_generator_of_version_6_needs_the_kinds_of_its_fields() -> None:
    before = next(
        made["before"]
        for made in MADE_BY_JVM_HUDI
        if made["name"] == "custom" and made["before"]["hoodie.table.version"] == "6"
    )
    with pytest.raises(ConfigError, match="kinds"):
        changed({**before, "hoodie.table.partition.fields": "p,q"}, 8)


def test_way_between_versions_goes_through_all_of_them() -> None:
    assert [str(leg) for leg in legs_between(V6, V9)] == ["6 to 8", "8 to 9"]
    assert [str(leg) for leg in legs_between(V9, V6)] == ["9 to 8", "8 to 6"]
    assert legs_between(V8, V8) == ()
