"""Properties of tables: those we read, those we make, and what a call may say of them."""

from __future__ import annotations

import pickle

import pytest
from tests.support.table_builder import every_version

from pyhudi.config.enums import MergeMode, TableType, TimelineTimezone
from pyhudi.config.table_config import TableConfig, check_against_table, new_table_properties
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import ConfigError, CorruptDataError, UnsupportedFeatureError
from pyhudi.format.keys.generator_types import KeyGeneratorType, PartitionFieldKind

PATH = "file:/t/.hoodie/hoodie.properties"
MODEL = "org.apache.hudi.common.model."
EVENT_TIME_ID = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
COMMIT_TIME_ID = "ce9acb64-bde0-424c-9b91-f6ebba25356d"

CALL = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "uuid",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
}
COMMON_KEYS = {
    "hoodie.table.name",
    "hoodie.table.type",
    "hoodie.table.version",
    "hoodie.timeline.layout.version",
    "hoodie.archivelog.folder",
    "hoodie.table.checksum",
    "hoodie.table.recordkey.fields",
    "hoodie.table.partition.fields",
    "hoodie.table.base.file.format",
    "hoodie.populate.meta.fields",
    "hoodie.datasource.write.hive_style_partitioning",
    "hoodie.datasource.write.partitionpath.urlencode",
    "hoodie.datasource.write.drop.partition.columns",
    "hoodie.partition.metafile.use.base.format",
    "hoodie.table.timeline.timezone",
    "hoodie.table.cdc.enabled",
}
SINCE_8_KEYS = COMMON_KEYS | {
    "hoodie.table.initial.version",
    "hoodie.timeline.path",
    "hoodie.timeline.history.path",
    "hoodie.table.keygenerator.type",
    "hoodie.table.multiple.base.file.formats.enable",
    "hoodie.record.merge.mode",
}
KEYS_OF_VERSION = {
    6: COMMON_KEYS
    | {
        "hoodie.database.name",
        "hoodie.table.precombine.field",
        "hoodie.table.keygenerator.class",
        "hoodie.compaction.payload.class",
        "hoodie.compaction.record.merger.strategy",
    },
    8: SINCE_8_KEYS
    | {"hoodie.table.precombine.field", "hoodie.compaction.payload.class", "hoodie.record.merge.strategy.id"},
    9: SINCE_8_KEYS | {"hoodie.table.ordering.fields", "hoodie.table.format", "hoodie.table.partition_extractor_class"},
}


def new_properties(version=9, **options):
    call = {**CALL, "hoodie.write.table.version": version, **options}
    return new_table_properties(WriteConfig.from_options(call), checksum="498511606")


def table(version=9, changes=None, *, without=(), **options):
    values = {**new_properties(version, **options), **(changes or {})}
    return TableConfig.from_properties({k: v for k, v in values.items() if k not in without}, path=PATH)


# ---- new tables


@every_version
def test_new_table_has_exactly_the_keys_that_hudi_writes_for_its_version(version):
    assert set(new_properties(version)) == KEYS_OF_VERSION[version]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            6,
            {
                "hoodie.timeline.layout.version": "1",
                "hoodie.archivelog.folder": "archived",
                "hoodie.table.precombine.field": "ts",
                "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
                "hoodie.compaction.payload.class": f"{MODEL}OverwriteWithLatestAvroPayload",
                "hoodie.database.name": "",
            },
        ),
        (
            8,
            {
                "hoodie.timeline.layout.version": "2",
                "hoodie.archivelog.folder": "history",
                "hoodie.table.initial.version": "8",
                "hoodie.table.precombine.field": "ts",
                "hoodie.table.keygenerator.type": "SIMPLE",
                "hoodie.compaction.payload.class": f"{MODEL}DefaultHoodieRecordPayload",
                "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
                "hoodie.record.merge.strategy.id": EVENT_TIME_ID,
            },
        ),
        (
            9,
            {
                "hoodie.table.version": "9",
                "hoodie.table.initial.version": "9",
                "hoodie.table.ordering.fields": "ts",
                "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
                "hoodie.table.format": "native",
                "hoodie.table.checksum": "498511606",
                "hoodie.table.timeline.timezone": "LOCAL",
            },
        ),
    ],
)
def test_new_table_of_each_version_has_the_values_of_hudi(version, expected):
    properties = new_properties(version)
    assert {key: properties[key] for key in expected} == expected


@every_version
def test_new_table_is_read_back_as_what_was_asked_for(version):
    config = table(version)
    assert (config.version.number, config.name, config.table_type) == (version, "trips", TableType.COPY_ON_WRITE)
    assert (config.record_key_fields, config.partition_fields) == (("uuid",), ("city",))
    assert (config.ordering_fields, config.key_generator_type) == (("ts",), KeyGeneratorType.SIMPLE)
    expected = MergeMode.COMMIT_TIME_ORDERING if version == 6 else MergeMode.EVENT_TIME_ORDERING
    assert config.merge_mode is expected
    assert config.timeline_timezone is TimelineTimezone.LOCAL
    assert config.history_path == ("archived" if version == 6 else "history")


def test_new_table_without_ordering_fields_orders_by_commit_time():
    properties = new_properties(9, **{"hoodie.datasource.write.precombine.field": None})
    assert properties["hoodie.record.merge.mode"] == "COMMIT_TIME_ORDERING"
    assert "hoodie.table.ordering.fields" not in properties


def test_new_table_without_partitions_has_the_empty_property():
    properties = new_properties(9, **{"hoodie.datasource.write.partitionpath.field": None})
    assert properties["hoodie.table.partition.fields"] == ""
    assert properties["hoodie.table.keygenerator.type"] == "NON_PARTITION"
    assert properties["hoodie.table.partition_extractor_class"].endswith("NonPartitionedExtractor")


def test_new_table_without_record_key_has_generated_keys():
    options = {"hoodie.datasource.write.recordkey.field": None}
    assert "hoodie.table.recordkey.fields" not in new_properties(9, **options)
    assert table(9, **options).record_key_fields == ()


@pytest.mark.parametrize(
    ("keys", "partitions", "kind"),
    [
        ("a", "p", "SIMPLE"),
        ("a,b", "p", "COMPLEX"),
        ("a", "p,q", "COMPLEX"),
        ("a,b", "", "NON_PARTITION"),
        ("a", "p:SIMPLE,t:TIMESTAMP", "CUSTOM"),
    ],
)
def test_key_generator_is_inferred_from_the_numbers_of_fields(keys, partitions, kind):
    options = {
        "hoodie.datasource.write.recordkey.field": keys,
        "hoodie.datasource.write.partitionpath.field": partitions,
    }
    assert new_properties(9, **options)["hoodie.table.keygenerator.type"] == kind


def test_kinds_of_partition_fields_are_stored_from_version_8():
    options = {"hoodie.datasource.write.partitionpath.field": "p:SIMPLE,t:TIMESTAMP"}
    assert new_properties(6, **options)["hoodie.table.partition.fields"] == "p,t"
    stored = table(8, **options)
    assert stored.partition_fields == ("p", "t")
    assert stored.partition_kinds == (PartitionFieldKind.SIMPLE, PartitionFieldKind.TIMESTAMP)


def test_timestamp_options_are_stored_for_timestamp_and_not_for_custom():
    timestamps = {
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
    }
    stored = new_properties(9, **timestamps, **{"hoodie.datasource.write.keygenerator.type": "TIMESTAMP"})
    assert {k: v for k, v in stored.items() if k.startswith("hoodie.keygen.")} == timestamps
    custom = new_properties(9, **timestamps, **{"hoodie.datasource.write.partitionpath.field": "t:TIMESTAMP"})
    assert not [key for key in custom if key.startswith("hoodie.keygen.")]


def test_payload_class_of_a_new_table_is_kept_as_legacy_in_version_9():
    payload = f"{MODEL}EventTimeAvroPayload"
    properties = new_properties(9, **{"hoodie.datasource.write.payload.class": payload})
    assert properties["hoodie.table.legacy.payload.class"] == payload
    assert new_properties(6, **{"hoodie.datasource.write.payload.class": payload})[
        "hoodie.compaction.payload.class"
    ] == (payload)


@pytest.mark.parametrize(
    ("version", "options", "problem"),
    [
        (9, {"hoodie.table.name": None}, "set hoodie.table.name"),
        (
            9,
            {"hoodie.datasource.write.precombine.field": None, "hoodie.record.merge.mode": "EVENT_TIME_ORDERING"},
            "needs hoodie.table.ordering.fields",
        ),
        (9, {"hoodie.datasource.write.keygenerator.type": "TIMESTAMP"}, "timebased.timestamp.type"),
        (
            9,
            {
                "hoodie.datasource.write.keygenerator.type": "SIMPLE",
                "hoodie.datasource.write.partitionpath.field": None,
            },
            "use NON_PARTITION",
        ),
        (9, {"hoodie.datasource.write.partitionpath.field": "p,q:SIMPLE"}, "CUSTOM key generator, not COMPLEX"),
        (8, {"hoodie.datasource.write.precombine.field": "a,b"}, "one ordering field"),
    ],
)
def test_new_table_that_the_options_do_not_describe_is_refused(version, options, problem):
    with pytest.raises(ConfigError, match=problem):
        new_properties(version, **options)


# ---- reading properties


def test_unknown_properties_are_kept():
    assert table(9, {"hoodie.from.the.future": "1"}).values["hoodie.from.the.future"] == "1"


def test_missing_partition_fields_differ_from_empty_ones():
    assert table(9, without=["hoodie.table.partition.fields"]).partition_fields is None
    assert table(9, {"hoodie.table.partition.fields": ""}).partition_fields == ()


@pytest.mark.parametrize(
    ("version", "changes"),
    [
        (6, {"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator"}),
        (8, {"hoodie.table.keygenerator.type": "NON_PARTITION"}),
        (9, {"hoodie.table.keygenerator.type": "NON_PARTITION"}),
    ],
)
def test_missing_partition_fields_are_none_at_all_where_the_key_generator_makes_no_partitions(version, changes):
    assert table(version, changes, without=["hoodie.table.partition.fields"]).partition_fields == ()


def test_new_spellings_in_an_old_table_are_read():
    # Hudi 1.2.0 stores these in tables of version 6 that it makes.
    config = table(
        6,
        {"hoodie.table.ordering.fields": "v", "hoodie.table.keygenerator.type": "COMPLEX"},
        without=["hoodie.table.precombine.field", "hoodie.table.keygenerator.class"],
    )
    assert (config.ordering_fields, config.key_generator_type) == (("v",), KeyGeneratorType.COMPLEX)


def test_key_generator_is_inferred_when_the_table_does_not_name_it():
    config = table(9, {"hoodie.table.partition.fields": "a,b"}, without=["hoodie.table.keygenerator.type"])
    assert config.key_generator_type is KeyGeneratorType.COMPLEX


@pytest.mark.parametrize(
    ("version", "changes", "mode"),
    [
        (6, {}, MergeMode.COMMIT_TIME_ORDERING),
        (6, {"hoodie.compaction.payload.class": f"{MODEL}DefaultHoodieRecordPayload"}, MergeMode.EVENT_TIME_ORDERING),
        (6, {"hoodie.compaction.payload.class": ""}, MergeMode.COMMIT_TIME_ORDERING),
        (6, {"hoodie.compaction.payload.class": "com.acme.P"}, MergeMode.CUSTOM),
        (
            8,
            {"hoodie.record.merge.mode": "", "hoodie.record.merge.strategy.id": COMMIT_TIME_ID},
            MergeMode.COMMIT_TIME_ORDERING,
        ),
        (8, {"hoodie.record.merge.mode": "", "hoodie.record.merge.strategy.id": "x"}, MergeMode.CUSTOM),
        (8, {"hoodie.record.merge.mode": "", "hoodie.record.merge.strategy.id": ""}, MergeMode.EVENT_TIME_ORDERING),
        (9, {"hoodie.record.merge.mode": ""}, MergeMode.EVENT_TIME_ORDERING),
        (9, {"hoodie.record.merge.mode": "", "hoodie.table.ordering.fields": ""}, MergeMode.COMMIT_TIME_ORDERING),
        (9, {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}, MergeMode.COMMIT_TIME_ORDERING),
    ],
)
def test_merge_mode_is_the_tables_own_or_that_of_its_version(version, changes, mode):
    assert table(version, changes).merge_mode is mode


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hoodie.table.version": ""}, "hoodie.table.version is missing"),
        ({"hoodie.table.version": "x"}, "hoodie.table.version cannot be 'x'"),
        ({"hoodie.table.name": ""}, "hoodie.table.name is missing"),
        ({"hoodie.table.type": "COW"}, "hoodie.table.type cannot be 'COW'"),
        ({"hoodie.timeline.layout.version": "1"}, "hoodie.timeline.layout.version is 1"),
        ({"hoodie.record.merge.mode": "X"}, "hoodie.record.merge.mode cannot be 'X'"),
        ({"hoodie.populate.meta.fields": "yes"}, "hoodie.populate.meta.fields cannot be 'yes'"),
        ({"hoodie.table.timeline.timezone": "CET"}, "hoodie.table.timeline.timezone cannot be 'CET'"),
        ({"hoodie.table.partition.fields": "a:DATE"}, "hoodie.table.partition.fields cannot be 'a:DATE'"),
    ],
)
def test_damaged_properties_name_the_property_and_the_file(changes, named):
    with pytest.raises(CorruptDataError) as caught:
        table(9, changes)
    assert caught.value.message.startswith(named)
    assert caught.value.context["path"] == PATH


@pytest.mark.parametrize(("version", "advice"), [("5", "upgrade the table"), ("7", "upgrade"), ("10", "newer release")])
def test_table_version_that_we_do_not_know_is_refused(version, advice):
    with pytest.raises(UnsupportedFeatureError, match=advice):
        table(9, {"hoodie.table.version": version})


def test_table_config_survives_pickling_and_can_be_hashed():
    config = table(9)
    assert pickle.loads(pickle.dumps(config)) == config
    assert hash(config) == hash(table(9))


# ---- a call against the table


@every_version
def test_call_that_says_nothing_or_the_same_agrees(version):
    check_against_table(WriteConfig(), table(version))
    check_against_table(WriteConfig.from_options({**CALL, "hoodie.write.table.version": version}), table(version))


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("hoodie.table.name", "other", "'other', the table has 'trips'"),
        ("hoodie.write.table.version", "8", "8, the table has 9"),
        ("hoodie.datasource.write.recordkey.field", "id", "'id', the table has 'uuid'"),
        ("hoodie.datasource.write.partitionpath.field", "", "none, the table has 'city'"),
        ("hoodie.datasource.write.partitionpath.field", "city,day", "'city,day', the table has 'city'"),
        ("hoodie.table.ordering.fields", "v", "'v', the table has 'ts'"),
        ("hoodie.datasource.write.keygenerator.type", "COMPLEX", "'COMPLEX', the table has 'SIMPLE'"),
        ("hoodie.datasource.write.hive_style_partitioning", "true", "True, the table has False"),
        ("hoodie.datasource.write.partitionpath.urlencode", "true", "True, the table has False"),
        (
            "hoodie.record.merge.mode",
            "COMMIT_TIME_ORDERING",
            "'COMMIT_TIME_ORDERING', the table has 'EVENT_TIME_ORDERING'",
        ),
    ],
)
def test_call_that_contradicts_the_table_is_refused_with_both_values(key, value, told):
    with pytest.raises(ConfigError, match="options conflict") as caught:
        check_against_table(WriteConfig.from_options({key: value}), table(9))
    assert f"{key} is {told}" in caught.value.message
    assert caught.value.context["keys"] == (key,)


def test_all_conflicts_are_told_at_once():
    options = {"hoodie.table.name": "other", "hoodie.datasource.write.recordkey.field": "id"}
    with pytest.raises(ConfigError) as caught:
        check_against_table(WriteConfig.from_options(options), table(9))
    assert caught.value.context["keys"] == tuple(options)


def test_other_kind_of_a_partition_field_conflicts_where_the_table_says_kinds():
    options = {"hoodie.datasource.write.partitionpath.field": "p:SIMPLE,t:TIMESTAMP"}
    call = WriteConfig.from_options({"hoodie.datasource.write.partitionpath.field": "p:SIMPLE,t:SIMPLE"})
    with pytest.raises(ConfigError, match="'SIMPLE,SIMPLE', the table has 'SIMPLE,TIMESTAMP'"):
        check_against_table(call, table(8, **options))
    check_against_table(call, table(6, **options))


def test_payload_class_that_the_table_does_not_go_by_conflicts():
    call = WriteConfig.from_options({"hoodie.datasource.write.payload.class": "OverwriteWithLatestAvroPayload"})
    with pytest.raises(ConfigError, match="the table has 'the rule EVENT_TIME_ORDERING'"):
        check_against_table(call, table(9))
