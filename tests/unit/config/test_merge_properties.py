"""How tables merge: against the properties that JVM Hudi wrote, and what only pyhudi's tables have.

`tables_of_hudi.json` has what 0.15.0, 1.0.2 and 1.2.0 put into `hoodie.properties` for some options: all of it
(`is_whole`), or what says how the table merges.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from tests.support.tables import loaded

from pyhudi.config.enums import MergeMode, PartialUpdateMode, TableType
from pyhudi.config.merge_properties import MERGERS_KEY, PAYLOAD_OF_MERGERS
from pyhudi.config.options_merging import MERGER_KEY, MERGER_OPTIONS_KEY
from pyhudi.config.payloads import PAYLOAD_RULES, rule_of_payload
from pyhudi.config.table_config import TableConfig, check_against_table, new_table_properties
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import ConfigError, CorruptDataError, UnsupportedFeatureError
from pyhudi.table.features import check_loadable, check_writable

PATH = "file:/t/.hoodie/hoodie.properties"
MODEL = "org.apache.hudi.common.model."
POSTGRES = f"{MODEL}debezium.PostgresDebeziumAvroPayload"
MYSQL = f"{MODEL}debezium.MySqlDebeziumAvroPayload"
DMS = f"{MODEL}AWSDmsAvroPayload"
CUSTOM_ID = "1897ef5f-18bc-4557-939c-9d6a8afd1519"
PAYLOAD_ID = "00000000-0000-0000-0000-000000000000"

TYPE_KEY = "hoodie.datasource.write.table.type"
PAYLOAD_KEY = "hoodie.datasource.write.payload.class"
MODE_KEY = "hoodie.record.merge.mode"
PREFIX = "hoodie.record.merge.property."
DELETE = {"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "x"}
MOR = {TYPE_KEY: "MERGE_ON_READ"}
STITCHING = {MERGERS_KEY: "stitching", MERGER_OPTIONS_KEY: "_ts1:a;_ts2:b,c"}
CALL = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "k",
    "hoodie.datasource.write.partitionpath.field": "p",
}

REAL = json.loads((Path(__file__).parent / "tables_of_hudi.json").read_text(encoding="utf-8"))


def label(real):
    kind, payload = real["options"][TYPE_KEY], real["options"].get(PAYLOAD_KEY, "")
    ordering = "ordered" if "hoodie.datasource.write.precombine.field" in real["options"] else "unordered"
    return f"v{real['version']}-{kind}-{ordering}-{payload.rpartition('.')[2] or 'no-payload'}-{len(real['options'])}"


def properties(version=9, **options):
    call = {**CALL, "hoodie.write.table.version": version, "hoodie.table.ordering.fields": "ts", **options}
    return new_table_properties(WriteConfig.from_options(call), checksum="498511606")


def table(version=9, changes=None, **options):
    return TableConfig.from_properties({**properties(version, **options), **(changes or {})}, path=PATH)


def real_table(real):
    return TableConfig.from_properties({**properties(real["version"]), **real["properties"]}, path=PATH)


def is_ours_to_make(real):
    """Whether we make such a table: not with classes that we do not know, nor by event time without ordering fields.

    A copy-on-write table of version 6 always names its payload class, which 0.15.0 takes from each write's options.
    """
    options = real["options"]
    rule = rule_of_payload(options.get(PAYLOAD_KEY, f"{MODEL}OverwriteWithLatestAvroPayload"))
    is_ordered = rule.ordering_fields or "hoodie.datasource.write.precombine.field" in options
    return (
        rule.merge_mode is not MergeMode.CUSTOM
        and (is_ordered or rule.merge_mode is not MergeMode.EVENT_TIME_ORDERING)
        and (real["version"] > 6 or options[TYPE_KEY] == "MERGE_ON_READ")
    )


# ---- against JVM Hudi


@pytest.mark.parametrize("real", list(filter(is_ours_to_make, REAL)), ids=label)
def test_new_table_has_the_properties_of_hudi_key_by_key(real):
    call = {**CALL, **real["options"], "hoodie.write.table.version": real["version"]}
    ours = new_table_properties(WriteConfig.from_options(call), checksum="498511606")
    if not real["is_whole"]:
        shared = ("hoodie.record.merge", "hoodie.compaction.", "hoodie.table.ordering", "hoodie.table.precombine")
        ours = {k: v for k, v in ours.items() if k.startswith((*shared, "hoodie.table.legacy", "hoodie.table.partial"))}
    assert ours == real["properties"]


@pytest.mark.parametrize(
    "real", [real for real in REAL if real["options"].get(PAYLOAD_KEY) in PAYLOAD_RULES], ids=label
)
def test_payload_class_means_the_same_in_tables_of_every_version(real):
    config, rule = real_table(real), PAYLOAD_RULES[real["options"][PAYLOAD_KEY]]
    assert (config.merge_mode, config.partial_update_mode) == (rule.merge_mode, rule.partial_update_mode)
    assert config.unavailable_value == rule.unavailable_value
    if "hoodie.payload.delete.field" not in real["options"]:
        assert config.delete_marker == rule.delete_marker
    if rule.ordering_fields:
        assert config.ordering_fields == rule.ordering_fields
    check_writable(loaded(config))


@pytest.mark.parametrize(
    "real", [real for real in REAL if real["options"].get(PAYLOAD_KEY, DMS) not in PAYLOAD_RULES], ids=label
)
def test_payload_class_with_a_rule_of_its_own_stays_custom(real):
    config = real_table(real)
    assert (config.merge_mode, config.merger_name) == (MergeMode.CUSTOM, None)
    with pytest.raises(UnsupportedFeatureError, match=config.payload_class):
        check_writable(loaded(config))


def test_delete_marker_that_hudi_stored_is_read():
    marked = [real for real in REAL if "hoodie.payload.delete.field" in real["options"]]
    assert [real_table(real).delete_marker for real in marked] == [("v", "D")] * 2


# ---- reading


def test_typed_values_of_a_debezium_table():
    config = table(**{PAYLOAD_KEY: POSTGRES})
    assert config.ordering_fields == ("_event_lsn",)
    assert config.partial_update_mode is PartialUpdateMode.FILL_UNAVAILABLE
    assert config.unavailable_value == "__debezium_unavailable_value"
    assert config.delete_marker == ("_change_operation_type", "d")


def test_plain_table_has_no_partial_updates_marker_or_merger():
    config = table()
    assert config.partial_update_mode is PartialUpdateMode.NONE
    assert (config.unavailable_value, config.delete_marker) == (None, None)
    assert (config.merger_name, config.merger_options) == (None, None)


@pytest.mark.parametrize(
    ("changes", "value"),
    [({}, "__debezium_unavailable_value"), ({f"{PREFIX}hoodie.write.partial.update.unavailable.value": "?"}, "?")],
)
def test_unavailable_value_is_the_tables_own_or_that_of_debezium(changes, value):
    config = table(9, {"hoodie.table.partial.update.mode": "fill_unavailable", **changes})
    assert (config.partial_update_mode, config.unavailable_value) == (PartialUpdateMode.FILL_UNAVAILABLE, value)


def test_property_of_the_table_wins_over_what_its_payload_class_means():
    changes = {
        "hoodie.table.partial.update.mode": "NONE",
        f"{PREFIX}hoodie.payload.delete.field": "op",
        f"{PREFIX}hoodie.payload.delete.marker": "x",
    }
    config = table(9, changes, **{PAYLOAD_KEY: POSTGRES})
    assert (config.partial_update_mode, config.delete_marker) == (PartialUpdateMode.NONE, ("op", "x"))


def test_payload_class_beside_another_mode_means_nothing():
    config = table(8, {MODE_KEY: "COMMIT_TIME_ORDERING", "hoodie.compaction.payload.class": POSTGRES})
    assert (config.merge_mode, config.ordering_fields) == (MergeMode.COMMIT_TIME_ORDERING, ("ts",))
    assert (config.partial_update_mode, config.delete_marker) == (PartialUpdateMode.NONE, None)


@pytest.mark.parametrize("half", ["field", "marker"])
def test_half_a_delete_marker_is_damage_that_names_the_other_half(half):
    other = {"field": "marker", "marker": "field"}[half]
    with pytest.raises(CorruptDataError, match=rf"hoodie\.payload\.delete\.{other} is missing") as caught:
        table(9, {f"{PREFIX}hoodie.payload.delete.{half}": "x"})
    assert caught.value.context["path"] == PATH


def test_partial_update_mode_that_we_do_not_know_is_named():
    with pytest.raises(CorruptDataError, match=r"hoodie\.table\.partial\.update\.mode cannot be 'KEEP'"):
        table(9, {"hoodie.table.partial.update.mode": "KEEP"})


# ---- what can be read and written


@pytest.mark.parametrize("version", [6, 8, 9])
def test_merge_on_read_table_is_readable_and_writable(version):
    config = table(version, **MOR)
    assert config.table_type is TableType.MERGE_ON_READ
    check_writable(loaded(config))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({MODE_KEY: "CUSTOM", "hoodie.compaction.payload.class": "com.acme.P"}, r"the record payload com\.acme\.P"),
        ({MODE_KEY: "CUSTOM", "hoodie.record.merge.strategy.id": CUSTOM_ID}, f"the merge strategy {CUSTOM_ID}"),
        ({MODE_KEY: "CUSTOM"}, "the CUSTOM merge mode"),
        ({f"{PREFIX}hoodie.from.the.future": "1"}, r"hoodie\.from\.the\.future"),
    ],
)
def test_unknown_merging_stops_writes_of_every_table_and_reads_of_merge_on_read(changes, named):
    copied, merged = loaded(table(9, changes)), loaded(table(9, changes, **MOR))
    check_loadable(copied)
    for check, refused in ((check_writable, copied), (check_loadable, merged), (check_writable, merged)):
        with pytest.raises(UnsupportedFeatureError, match=named):
            check(refused)


def test_known_payload_class_beside_a_merger_in_java_is_not_blamed():
    changes = {MODE_KEY: "CUSTOM", "hoodie.record.merge.strategy.id": CUSTOM_ID}
    with pytest.raises(UnsupportedFeatureError, match=f"the merge strategy {CUSTOM_ID}"):
        check_writable(loaded(table(8, changes)))


# ---- mergers


@pytest.mark.parametrize("version", [6, 8, 9])
def test_table_with_a_merger_is_read_back_as_what_was_asked_for(version):
    config = table(version, **STITCHING, **MOR)
    check_writable(loaded(config))
    assert (config.merge_mode, config.merger_name) == (MergeMode.CUSTOM, "stitching")
    assert config.merger_options == "_ts1:a;_ts2:b,c"


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (6, {"hoodie.compaction.payload.class": PAYLOAD_OF_MERGERS}),
        (
            8,
            {
                MODE_KEY: "CUSTOM",
                "hoodie.record.merge.strategy.id": CUSTOM_ID,
                "hoodie.compaction.payload.class": PAYLOAD_OF_MERGERS,
            },
        ),
        (9, {MODE_KEY: "CUSTOM", "hoodie.record.merge.strategy.id": CUSTOM_ID, "hoodie.table.ordering.fields": "ts"}),
    ],
)
def test_table_with_a_merger_is_one_that_the_jvm_cannot_merge(version, expected):
    stored = properties(version, **{MERGERS_KEY: "record_count"})
    assert {key: stored[key] for key in expected} == expected
    assert stored[MERGER_KEY] == "record_count"
    assert MERGER_OPTIONS_KEY not in stored


def test_class_of_the_users_own_needs_no_ordering_fields():
    stored = properties(9, **{MERGERS_KEY: "acme.merging.Largest", "hoodie.table.ordering.fields": None})
    assert stored[MERGER_KEY] == "acme.merging:Largest"


def test_name_of_a_loaded_merger_is_what_the_table_keeps():
    config = WriteConfig.from_options({**CALL, MERGERS_KEY: "acme:Largest"})
    stored = new_table_properties(config, checksum="1", merger={MERGER_KEY: "largest"})
    assert stored[MERGER_KEY] == "largest"


@pytest.mark.parametrize(
    "options", [{MODE_KEY: "CUSTOM"}, {MERGERS_KEY: "stitching,record_count"}], ids=["none", "two"]
)
def test_new_table_of_custom_mode_needs_exactly_one_merger(options):
    with pytest.raises(ConfigError, match="needs one merger"):
        properties(9, **options)


@pytest.mark.parametrize(
    ("text", "mergers"),
    [
        ("stitching", ("stitching",)),
        ("a.b:C, a.b.C ,a.b.c.D", ("a.b:C", "a.b.c:D")),
        ("org.apache.hudi.HoodieSparkRecordMerger", ()),
        ("org.apache.hudi.DefaultSparkRecordMerger,record_count", ("record_count",)),
    ],
)
def test_mergers_are_built_in_names_or_classes_and_those_of_hudi_are_passed_over(text, mergers):
    assert WriteConfig.from_options({MERGERS_KEY: text}).merging.mergers == mergers


@pytest.mark.parametrize(
    "text", ["stiching", "a.b:", ":C", "a.b:C:D", "a..b:C", "a.b:C,,a.b:D", "1a:C", "a-b:C", "../a:C"]
)
def test_merger_that_is_no_class_is_refused_with_the_legal_forms(text):
    with pytest.raises(ConfigError, match="record_count or stitching, or importable classes"):
        WriteConfig.from_options({MERGERS_KEY: text})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({MERGERS_KEY: "stitching", MODE_KEY: "EVENT_TIME_ORDERING"}, "different merge modes"),
        ({MERGERS_KEY: "stitching", PAYLOAD_KEY: DMS}, "different merge modes"),
        ({MERGER_OPTIONS_KEY: "_ts1:a"}, "needs a merger"),
        ({"hoodie.payload.delete.field": "op"}, "go together"),
        ({"hoodie.payload.delete.marker": "x"}, "go together"),
    ],
)
def test_options_that_name_two_rules_or_half_a_rule_are_refused(options, problem):
    with pytest.raises(ConfigError, match=problem):
        WriteConfig.from_options(options)


@pytest.mark.parametrize("named", [{MODE_KEY: "CUSTOM"}, {"hoodie.write.record.merge.strategy.id": PAYLOAD_ID}])
def test_custom_mode_beside_a_payload_class_is_that_of_the_class(named):
    assert WriteConfig.from_options({**named, PAYLOAD_KEY: DMS}).merge_mode is MergeMode.COMMIT_TIME_ORDERING


@pytest.mark.parametrize("version", [6, 8])
def test_old_version_keeps_no_delete_marker_of_its_own(version):
    with pytest.raises(ConfigError, match="keeps no delete marker"):
        properties(version, **DELETE)


# ---- a call against the table


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("payload", sorted(PAYLOAD_RULES))
def test_call_that_repeats_what_made_the_table_agrees(version, payload):
    options = {PAYLOAD_KEY: payload, "hoodie.table.ordering.fields": "ts"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_against_table(WriteConfig.from_options({**CALL, **options}), table(version, **options))


@pytest.mark.parametrize("call", [STITCHING, {**STITCHING, MERGER_OPTIONS_KEY: " _ts1 : a; _ts2 : b, c "}, {}])
def test_call_that_names_the_tables_merger_or_none_agrees(call):
    check_against_table(WriteConfig.from_options(call), table(9, **STITCHING))


@pytest.mark.parametrize(
    ("call", "key"),
    [
        ({MERGERS_KEY: "record_count"}, MERGERS_KEY),
        ({MODE_KEY: "EVENT_TIME_ORDERING"}, MODE_KEY),
    ],
)
def test_call_for_another_merger_conflicts(call, key):
    with pytest.raises(ConfigError, match="options conflict") as caught:
        check_against_table(WriteConfig.from_options(call), table(9, **STITCHING))
    assert caught.value.context["keys"] == (key,)


@pytest.mark.parametrize("call", [{MERGERS_KEY: "acme:Largest"}, {**STITCHING, MERGER_OPTIONS_KEY: "_ts2:b,c;_ts1:a"}])
def test_name_of_a_class_and_options_of_a_merger_are_compared_when_it_is_loaded(call):
    check_against_table(WriteConfig.from_options(call), table(9, **STITCHING))


@pytest.mark.parametrize("mergers", ["stitching", "acme:Largest"])
def test_merger_for_a_table_without_one_conflicts(mergers):
    with pytest.raises(ConfigError, match="the table has None"):
        check_against_table(WriteConfig.from_options({MERGERS_KEY: mergers}), table(9))


def test_other_delete_marker_conflicts():
    check_against_table(WriteConfig.from_options(DELETE), table(9, **DELETE))
    with pytest.raises(ConfigError, match="'op,x', the table has 'Op,D'"):
        check_against_table(WriteConfig.from_options(DELETE), table(9, **{PAYLOAD_KEY: DMS}))


def test_payload_class_with_other_partial_updates_than_the_tables_conflicts():
    call = WriteConfig.from_options({PAYLOAD_KEY: "DefaultHoodieRecordPayload"})
    with pytest.raises(ConfigError, match="the rule EVENT_TIME_ORDERING and IGNORE_DEFAULTS"):
        check_against_table(call, table(9, **{PAYLOAD_KEY: "PartialUpdateAvroPayload"}))


def test_table_type_other_than_the_tables_conflicts():
    with pytest.raises(ConfigError, match="'MERGE_ON_READ', the table has 'COPY_ON_WRITE'"):
        check_against_table(WriteConfig.from_options(MOR), table(9))
