"""The options of a write: defaults, types, contradictions."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from pyhudi.config.enums import (
    Arrangement,
    CompactionStrategy,
    CompactionTrigger,
    DuplicatePolicy,
    FailedWritesPolicy,
    IndexType,
    MergeMode,
    ParquetCodec,
    TableType,
)
from pyhudi.config.option import OptionWarning
from pyhudi.config.registry import OPTIONS
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.format.bloom import BloomFilterType
from pyhudi.format.keys.generator_types import KeyGeneratorType
from pyhudi.format.metadata.clean import CleaningPolicy
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.table_version import V9


def test_no_options_give_the_defaults_of_the_registry():
    assert WriteConfig.from_options({}) == WriteConfig()


def test_defaults_are_those_of_hudi_but_for_the_codec_the_size_of_a_record_and_that_of_filters():
    default = WriteConfig()
    assert default.operation is WriteOperation.UPSERT
    assert default.index.index_type is IndexType.SIMPLE
    assert (default.bloom.num_entries, default.bloom.false_positive_rate) == (60_000, 1e-9)
    assert (default.bloom.filter_type, default.bloom.dynamic_max_entries) == (BloomFilterType.DYNAMIC_V0, 500_000)
    assert (default.files.max_file_size, default.files.small_file_limit) == (125_829_120, 104_857_600)
    assert (default.files.block_size, default.files.page_size) == (125_829_120, 1_048_576)
    assert default.files.codec is ParquetCodec.ZSTD
    assert (default.files.record_size_estimate, default.files.record_size_threshold) == (None, 1.0)
    assert default.files.sort_mode is Arrangement.NONE
    assert (default.input.combine_before_insert, default.input.combine_before_upsert) == (False, True)
    assert default.input.commit_metadata_prefix == "_"
    assert default.concurrency.lock_wait_ms == 60_000
    assert default.concurrency.failed_writes_policy is FailedWritesPolicy.EAGER
    assert (default.concurrency.heartbeat_interval_ms, default.concurrency.heartbeat_tolerable_misses) == (60_000, 2)
    assert default.new_table_version is V9


def test_defaults_of_merge_on_read_are_those_of_hudi():
    logs, compaction, memory = WriteConfig().logs, WriteConfig().compaction, WriteConfig().memory
    assert (logs.max_file_size, logs.max_block_size) == (1_073_741_824, 67_108_864)
    assert (logs.block_format, logs.small_file_candidates) == (None, 1)
    assert (memory.merge_max_bytes, memory.spill_folder) == (1_073_741_824, None)
    assert (compaction.inline, compaction.schedule_inline) == (None, False)
    assert (compaction.max_delta_commits, compaction.max_delta_seconds) == (5, 3600)
    assert compaction.trigger is CompactionTrigger.NUM_COMMITS
    assert compaction.strategies == (CompactionStrategy.LOG_FILE_SIZE,)
    assert (compaction.target_io_mb, compaction.target_partitions, compaction.partition_regex) == (512_000, 10, None)
    assert (compaction.log_size_threshold, compaction.log_count_threshold) == (0, 0)
    assert (compaction.log_enabled, compaction.log_inline, compaction.log_blocks_threshold) == (False, False, 5)


@pytest.mark.parametrize(
    ("options", "table_type", "runs"),
    [
        ({}, TableType.MERGE_ON_READ, True),
        ({}, TableType.COPY_ON_WRITE, False),
        ({"hoodie.compact.inline": "true"}, TableType.COPY_ON_WRITE, False),
        ({"hoodie.compact.inline": "true"}, TableType.MERGE_ON_READ, True),
        ({"hoodie.compact.inline": "false"}, TableType.MERGE_ON_READ, False),
        ({"hoodie.compact.schedule.inline": "true"}, TableType.MERGE_ON_READ, False),
    ],
)
def test_compaction_runs_inline_in_merge_on_read_tables_unless_told_otherwise(options, table_type, runs):
    assert WriteConfig.from_options(options).compaction.runs_inline(table_type) is runs


@pytest.mark.parametrize(
    ("text", "strategies"),
    [
        (
            "org.apache.hudi.table.action.compact.strategy.UnBoundedCompactionStrategy",
            (CompactionStrategy.UNBOUNDED,),
        ),
        (
            "DayBasedCompactionStrategy, org.apache.hudi.table.action.compact.strategy.BoundedIOCompactionStrategy",
            (CompactionStrategy.DAY_BASED, CompactionStrategy.BOUNDED_IO),
        ),
    ],
)
def test_compaction_strategies_go_by_the_names_of_their_classes(text, strategies):
    assert WriteConfig.from_options({"hoodie.compaction.strategy": text}).compaction.strategies == strategies


@pytest.mark.parametrize("text", ["com.acme.DayBasedCompactionStrategy", "DayBased", "DayBasedCompactionStrategy,"])
def test_unknown_compaction_strategy_is_refused_with_the_legal_ones(text):
    with pytest.raises(ConfigError, match="of LogFileSizeBasedCompactionStrategy, LogFileNum"):
        WriteConfig.from_options({"hoodie.compaction.strategy": text})


def test_python_values_and_texts_mean_the_same():
    texts = {"hoodie.parquet.max.file.size": "1000", "hoodie.combine.before.upsert": "false"}
    values = {"hoodie.parquet.max.file.size": 1000, "hoodie.combine.before.upsert": False}
    assert WriteConfig.from_options(texts) == WriteConfig.from_options(values)
    assert WriteConfig.from_options(values).files.max_file_size == 1000


def test_old_spellings_are_as_good_as_new_ones():
    config = WriteConfig.from_options(
        {
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.cleaner.policy.failed.writes": "lazy",
            "hoodie.datasource.write.storage.type": "COPY_ON_WRITE",
            "hoodie.deltastreamer.keygen.timebased.output.dateformat": "yyyy",
        }
    )
    assert config.table.ordering_fields == ("ts",)
    assert config.concurrency.failed_writes_policy is FailedWritesPolicy.LAZY
    assert config.keys.output_format == "yyyy"


def test_what_a_call_does_not_say_of_the_table_is_none():
    table = WriteConfig.from_options({"hoodie.table.name": "t"}).table
    assert table.name == "t"
    assert (table.record_key_fields, table.partition_fields, table.hive_style, table.version) == (None,) * 4


def test_empty_partition_fields_differ_from_none_given():
    options = {"hoodie.datasource.write.partitionpath.field": ""}
    assert WriteConfig.from_options(options).table.partition_fields == ()


def test_config_survives_pickling_to_a_worker():
    config = WriteConfig.from_options({"hoodie.table.name": "t", "hoodie.index.type": "GLOBAL_BLOOM", "_a": 1})
    assert pickle.loads(pickle.dumps(config)) == config


def test_options_with_the_prefix_go_into_the_commit():
    options = {"_batch": 7, "other": "x", "hoodie.table.name": "t"}
    assert WriteConfig.from_options(options).extra_metadata == (("_batch", "7"),)
    options |= {"hoodie.datasource.write.commitmeta.key.prefix": "oth"}
    assert WriteConfig.from_options(options).extra_metadata == (("other", "x"),)


def test_unknown_operation_is_refused_with_the_legal_ones():
    with pytest.raises(ConfigError, match=r"cannot be 'upsrt': it must be one of upsert, insert, bulk_insert"):
        WriteConfig.from_options({"hoodie.datasource.write.operation": "upsrt"})


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("hoodie.index.type", "flink_state", "FLINK_STATE"),
        ("hoodie.logfile.data.block.format", "hfile", "HFILE"),
        (
            "hoodie.datasource.write.payload.class",
            "org.apache.hudi.common.model.HoodieAvroPayload",
            "HoodieAvroPayload",
        ),
        ("hoodie.datasource.write.payload.class", "MyPayload", "MyPayload is not supported"),
        ("hoodie.datasource.write.record.merger.strategy", "12345678-0000-0000-0000-000000000000", "12345678"),
        ("hoodie.datasource.write.keygenerator.class", "com.acme.MyKeyGenerator", "com.acme.MyKeyGenerator"),
        ("hoodie.datasource.write.keygenerator.type", "USER_PROVIDED", "key generator"),
        (
            "hoodie.write.lock.provider",
            "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider",
            "HiveMetastoreBasedLockProvider",
        ),
        ("hoodie.populate.meta.fields", "false", "_hoodie_"),
        ("hoodie.datasource.write.drop.partition.columns", True, "partition columns"),
        ("hoodie.datasource.write.slash.separated.date.partitioning", "true", "2026/01/31"),
        ("hoodie.table.base.file.format", "ORC", "ORC"),
        ("hoodie.parquet.compression.codec", "lzo", "LZO"),
    ],
)
def test_value_that_only_the_jvm_can_serve_is_refused_by_name(key, value, named):
    with pytest.raises(UnsupportedFeatureError) as caught:
        WriteConfig.from_options({key: value})
    assert named in caught.value.message
    assert caught.value.context["option"] == OPTIONS[key].key


@pytest.mark.parametrize("version", ["5", "7", "10", "nine"])
def test_unwritable_table_version_is_refused(version):
    with pytest.raises(ConfigError, match="6, 8 or 9"):
        WriteConfig.from_options({"hoodie.write.table.version": version})


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"hoodie.datasource.write.partitions.to.delete": "a"}, "not with upsert"),
        (
            {
                "hoodie.datasource.write.operation": "insert_overwrite_table",
                "hoodie.datasource.overwrite.mode": "DYNAMIC",
            },
            "use insert_overwrite",
        ),
        (
            {
                "hoodie.datasource.write.insert.drop.duplicates": "true",
                "hoodie.datasource.insert.dup.policy": "fail",
            },
            "drops what",
        ),
        ({"hoodie.index.type": "BLOOM", "hoodie.parquet.bloom.filter.enabled": "false"}, "needs bloom filters"),
        (
            {
                "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
                "hoodie.datasource.write.payload.class": "DefaultHoodieRecordPayload",
            },
            "different merge modes",
        ),
        (
            {
                "hoodie.datasource.write.keygenerator.type": "SIMPLE",
                "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
            },
            "name different ones",
        ),
        (
            {
                "hoodie.datasource.write.keygenerator.type": "NON_PARTITION",
                "hoodie.datasource.write.partitionpath.field": "p",
            },
            "takes no partition fields",
        ),
        (
            {
                "hoodie.datasource.write.keygenerator.type": "SIMPLE",
                "hoodie.datasource.write.partitionpath.field": "p,q",
            },
            "takes one partition field, not 2",
        ),
        (
            {
                "hoodie.datasource.write.keygenerator.type": "SIMPLE",
                "hoodie.datasource.write.partitionpath.field": "p",
                "hoodie.datasource.write.recordkey.field": "a,b",
            },
            "takes one record key field",
        ),
        (
            {
                "hoodie.datasource.write.keygenerator.type": "CUSTOM",
                "hoodie.datasource.write.partitionpath.field": "p",
            },
            "column:SIMPLE",
        ),
        (
            {
                "hoodie.datasource.write.keygenerator.type": "COMPLEX",
                "hoodie.datasource.write.partitionpath.field": "p:SIMPLE",
            },
            "need the CUSTOM key generator",
        ),
        ({"hoodie.write.table.version": "6", "hoodie.table.ordering.fields": "a,b"}, "one ordering field, not 2"),
        ({"hoodie.compact.inline": "true", "hoodie.compact.schedule.inline": "true"}, "leaves to others"),
        (
            {"hoodie.compaction.strategy": "UnBoundedCompactionStrategy,PartitionRegexBasedCompactionStrategy"},
            "needs hoodie.compaction.partition.path.regex",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, problem):
    with pytest.raises(ConfigError, match="contradict each other") as caught:
        WriteConfig.from_options(options)
    assert problem in caught.value.message


def test_all_contradictions_are_told_at_once():
    with pytest.raises(ConfigError) as caught:
        WriteConfig.from_options(
            {
                "hoodie.datasource.write.partitions.to.delete": "a",
                "hoodie.index.type": "GLOBAL_BLOOM",
                "hoodie.parquet.bloom.filter.enabled": "false",
            }
        )
    assert "delete_partition" in caught.value.message
    assert "GLOBAL_BLOOM" in caught.value.message


def test_partition_field_of_unknown_kind_is_refused():
    with pytest.raises(ConfigError, match="SIMPLE or TIMESTAMP"):
        WriteConfig.from_options({"hoodie.datasource.write.partitionpath.field": "p:DATE"})


@pytest.mark.parametrize(
    ("options", "mode"),
    [
        ({}, None),
        ({"hoodie.write.record.merge.mode": "event_time_ordering"}, MergeMode.EVENT_TIME_ORDERING),
        (
            {"hoodie.write.record.merge.strategy.id": "ce9acb64-bde0-424c-9b91-f6ebba25356d"},
            MergeMode.COMMIT_TIME_ORDERING,
        ),
        (
            {"hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.EventTimeAvroPayload"},
            MergeMode.EVENT_TIME_ORDERING,
        ),
        (
            {"hoodie.datasource.write.payload.class": "OverwriteWithLatestAvroPayload"},
            MergeMode.COMMIT_TIME_ORDERING,
        ),
    ],
)
def test_merge_mode_comes_from_any_of_its_three_names(options, mode):
    assert WriteConfig.from_options(options).merge_mode is mode


@pytest.mark.parametrize(
    ("class_name", "kind"),
    [
        ("org.apache.hudi.keygen.SimpleKeyGenerator", KeyGeneratorType.SIMPLE),
        ("org.apache.hudi.keygen.ComplexAvroKeyGenerator", KeyGeneratorType.COMPLEX),
        ("NonpartitionedKeyGenerator", KeyGeneratorType.NON_PARTITION),
        ("org.apache.hudi.keygen.TimestampBasedKeyGenerator", KeyGeneratorType.TIMESTAMP),
    ],
)
def test_key_generator_class_means_its_type(class_name, kind):
    options = {"hoodie.datasource.write.keygenerator.class": class_name}
    assert WriteConfig.from_options(options).key_generator_type is kind


@pytest.mark.parametrize(
    ("operation", "mode", "whole"),
    [
        ("insert_overwrite", None, False),
        ("insert_overwrite", "DYNAMIC", False),
        ("insert_overwrite", "STATIC", True),
        ("insert_overwrite_table", None, True),
        ("upsert", "STATIC", False),
    ],
)
def test_overwrite_replaces_the_table_only_when_asked(operation, mode, whole):
    options = {"hoodie.datasource.write.operation": operation, "hoodie.datasource.overwrite.mode": mode}
    assert WriteConfig.from_options(options).replaces_whole_table is whole


@pytest.mark.parametrize(
    ("operation", "splits", "combines"),
    [
        ("upsert", 1, True),
        ("insert", 2, False),
        ("bulk_insert", 3, False),
        ("delete", 4, True),
        ("insert_overwrite", 2, False),
    ],
)
def test_each_operation_has_its_own_splits_and_combining(operation, splits, combines):
    config = WriteConfig.from_options(
        {
            "hoodie.datasource.write.operation": operation,
            "hoodie.upsert.shuffle.parallelism": 1,
            "hoodie.insert.shuffle.parallelism": 2,
            "hoodie.bulkinsert.shuffle.parallelism": 3,
            "hoodie.delete.shuffle.parallelism": 4,
        }
    )
    assert (config.splits, config.combines_input) == (splits, combines)
    assert WriteConfig.from_options({"hoodie.datasource.write.operation": operation}).splits is None


@pytest.mark.parametrize(
    ("index", "moves"), [("SIMPLE", False), ("BLOOM", False), ("GLOBAL_SIMPLE", False), ("GLOBAL_BLOOM", True)]
)
def test_only_a_global_index_moves_records_and_each_by_its_own_option(index, moves):
    options = {"hoodie.index.type": index, "hoodie.simple.index.update.partition.path": "false"}
    assert WriteConfig.from_options(options).moves_partition is moves


def test_old_switch_for_dropping_duplicates_is_a_policy():
    options = {"hoodie.datasource.write.insert.drop.duplicates": "true"}
    assert WriteConfig.from_options(options).duplicate_policy is DuplicatePolicy.DROP


def test_codec_has_the_name_that_pyarrow_knows():
    codec = WriteConfig.from_options({"hoodie.parquet.compression.codec": "UNCOMPRESSED"}).files.codec
    assert codec.arrow_name == "none"


@pytest.mark.parametrize(
    "key",
    ["hoodie.datasource.write.payload.class", "hoodie.compaction.payload.class", "hoodie.table.legacy.payload.class"],
)
@pytest.mark.parametrize(
    ("name", "merger"),
    [
        ("RecordCountAvroPayload", "record_count"),
        ("org.apache.hudi.common.model.RecordCountAvroPayload", "record_count"),
        ("my_module.MyMerger", "my_module:MyMerger"),
        ("package.module:MyMerger", "package.module:MyMerger"),
    ],
)
def test_payload_class_that_is_a_merger_counts_as_the_merger_of_the_call(key, name, merger):
    config = WriteConfig.from_options({key: name})
    assert (config.table.payload, config.merging.mergers) == (None, (merger,))
    assert config.merge_mode is MergeMode.CUSTOM


def test_log_blocks_above_what_a_task_holds_in_memory_warn():
    with pytest.warns(OptionWarning, match="blocks have 67108864 bytes"):
        WriteConfig.from_options({"hoodie.logfile.data.block.max.size": 256 << 20})


@pytest.mark.parametrize(
    ("options", "policy"),
    [
        ({}, CleaningPolicy.KEEP_LATEST_COMMITS),
        ({"hoodie.cleaner.fileversions.retained": "20"}, CleaningPolicy.KEEP_LATEST_FILE_VERSIONS),
        ({"hoodie.clean.hours.retained": 5}, CleaningPolicy.KEEP_LATEST_BY_HOURS),
        ({"hoodie.clean.commits.retained": 5}, CleaningPolicy.KEEP_LATEST_COMMITS),
        (
            {"hoodie.clean.commits.retained": 5, "hoodie.clean.fileversions.retained": 2},
            CleaningPolicy.KEEP_LATEST_COMMITS,
        ),
        (
            {"hoodie.cleaner.policy": "KEEP_LATEST_COMMITS", "hoodie.clean.fileversions.retained": 2},
            CleaningPolicy.KEEP_LATEST_COMMITS,
        ),
    ],
)
def test_what_cleaning_retains_says_its_policy_as_in_jvm_hudi(options: dict[str, Any], policy: CleaningPolicy) -> None:
    assert WriteConfig.from_options(options).cleaning.policy is policy


def test_the_default_of_commits_that_stay_is_below_the_most_that_may_stay() -> None:
    archiving = WriteConfig.from_options({"hoodie.keep.max.commits": "10"}).archiving
    assert (archiving.min_commits, archiving.max_commits) == (9, 10)
    assert WriteConfig.from_options({"hoodie.keep.max.commits": "25"}).archiving.min_commits == 20
