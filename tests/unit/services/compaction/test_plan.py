"""Which slices a compaction takes, in which order and why, strategy by strategy."""

from __future__ import annotations

import dataclasses
import random
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.config.enums import CompactionStrategy
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import ConfigError, InternalError
from pyhudi.format.file_names import BaseFileName, LogFileName, parse_data_file
from pyhudi.format.metadata.compaction import decode_compaction_plan, encode_compaction_plan
from pyhudi.services.compaction.plan import PlannedCompaction, plan_compaction, plan_log_compaction
from pyhudi.services.compaction.strategies import CompactionSettings, estimate_metrics
from pyhudi.table.file_slice import BaseFile, FileGroupId, FileSlice, LogFile

GOLDEN = Path(__file__).parents[3] / "golden" / "compaction_plans"
TODAY = date(2024, 3, 10)
MB = 1024 * 1024
BASE_TIME, LOG_TIME = "20240301000000000", "20240302000000000"


def slice_of(partition: str, file_id: str, *logs: int, base: int | None = MB) -> FileSlice:
    """A slice with a base file and logs of these sizes in bytes."""
    base_name = BaseFileName(file_id, "0-1-2", BASE_TIME)
    log_names = [LogFileName(file_id, LOG_TIME, version, "0-1-2") for version in range(1, len(logs) + 1)]
    return FileSlice(
        group=FileGroupId(partition, file_id),
        instant_time=BASE_TIME,
        base=None if base is None else BaseFile(partition, base_name, f"{partition}/{base_name}", base),
        logs=tuple(
            LogFile(partition, name, f"{partition}/{name}", size) for name, size in zip(log_names, logs, strict=True)
        ),
    )


REGEX_KEY = "hoodie.compaction.partition.path.regex"


def plan_with(slices: list[FileSlice], *strategies: str, **changes: object) -> PlannedCompaction:
    chosen = dataclasses.replace(CompactionSettings(), **changes)
    if strategies:
        chosen = dataclasses.replace(chosen, strategies=tuple(map(CompactionStrategy, strategies)))
    return plan_compaction(slices, (), chosen, today=TODAY)


def ids_of(planned: PlannedCompaction) -> list[str]:
    return [operation.file_id for operation in planned.plan.operations]


def test_operation_names_the_files_of_its_slice() -> None:
    operation = plan_with([slice_of("p=1", "f-0", 10, 20, base=3 * MB)]).plan.operations[0]

    assert (operation.file_id, operation.partition_path, operation.base_instant_time) == ("f-0", "p=1", BASE_TIME)
    assert operation.data_file == f"f-0_0-1-2_{BASE_TIME}.parquet"
    assert operation.delta_files == (f".f-0_{LOG_TIME}.log.1_0-1-2", f".f-0_{LOG_TIME}.log.2_0-1-2")
    assert operation.metrics == {
        "TOTAL_LOG_FILES": 2.0,
        "TOTAL_LOG_FILES_SIZE": 30.0,
        "TOTAL_IO_READ_MB": 3.0,
        "TOTAL_IO_WRITE_MB": 3.0,
        "TOTAL_IO_MB": 6.0,
    }


def test_slice_of_logs_alone_begins_with_its_first_log_and_is_to_become_a_full_file() -> None:
    operation = plan_with([slice_of("p", "f-0", MB, base=None)]).plan.operations[0]

    assert (operation.data_file, operation.base_instant_time) == (None, LOG_TIME)
    assert operation.metrics["TOTAL_IO_READ_MB"] == 1
    assert operation.metrics["TOTAL_IO_WRITE_MB"] == 120


def test_metrics_round_each_part_down() -> None:
    # 1.5 MiB of base and 0.75 of logs: two are read and one is written.
    metrics = estimate_metrics(slice_of("p", "f-0", 3 * MB // 4, base=3 * MB // 2), 120 * MB)
    assert [metrics[f"TOTAL_IO_{part}MB"] for part in ("READ_", "WRITE_", "")] == [2, 1, 3]


def test_plan_is_that_of_jvm_hudi_for_the_same_slices() -> None:
    path = "compaction_1.2.0.avro"
    theirs = decode_compaction_plan((GOLDEN / path).read_bytes(), path=path)
    log_bytes = iter((1763, 971, 1773, 1619))
    slices = [
        FileSlice(
            group=FileGroupId(each.partition_path, each.file_id),
            instant_time=each.base_instant_time,
            base=BaseFile(each.partition_path, parse_data_file(each.data_file or ""), "", 435_268),
            logs=tuple(
                LogFile(each.partition_path, parse_data_file(name), "", next(log_bytes)) for name in each.delta_files
            ),
        )
        for each in theirs.operations
    ]
    random.Random(4).shuffle(slices)

    assert plan_with(slices).plan == theirs


def test_slices_without_logs_are_no_candidates() -> None:
    planned = plan_with([slice_of("p", "f-0"), slice_of("p", "f-1", 1)])
    assert ids_of(planned) == ["f-1"]
    assert planned.skipped == ()
    assert planned.plan.missing_partitions == ()


def test_group_of_a_pending_service_is_skipped_and_its_partition_stays_on_the_list() -> None:
    slices = [slice_of("a", "f-0", 1), slice_of("b", "f-0", 1)]
    planned = plan_compaction(slices, {FileGroupId("a", "f-0")}, CompactionSettings(), today=TODAY)
    assert [operation.partition_path for operation in planned.plan.operations] == ["b"]
    assert [(verdict.file_slice, "pending" in verdict.reason) for verdict in planned.skipped] == [(slices[0], True)]
    assert planned.plan.missing_partitions == ("a",)


def test_two_slices_of_a_group_are_a_bug() -> None:
    with pytest.raises(InternalError):
        plan_with([slice_of("p", "f-0", 1), slice_of("p", "f-0", 2)])


def test_largest_logs_come_first_by_default() -> None:
    slices = [slice_of("p", "f-0", 5), slice_of("p", "f-1", 4, 4), slice_of("a", "f-2", 5)]
    planned = plan_with(slices)
    # Equal ones in the order of partition and file id.
    assert ids_of(planned) == ["f-1", "f-2", "f-0"]
    assert [verdict.file_slice.file_id for verdict in planned.chosen] == ["f-1", "f-2", "f-0"]
    assert planned.chosen[0].reason == "2 log files of 8 bytes; 2 MiB of I/O"


def test_slice_below_the_size_threshold_is_skipped() -> None:
    planned = plan_with([slice_of("p", "f-0", 9), slice_of("p", "f-1", 10)], log_size_threshold=10)
    assert ids_of(planned) == ["f-1"]
    assert planned.skipped[0].reason == "LogFileSizeBasedCompactionStrategy: its logs have fewer than 10 bytes"
    assert planned.plan.missing_partitions == ("p",)


def test_most_logs_come_first_by_number() -> None:
    slices = [slice_of("p", "f-0", 900), slice_of("p", "f-1", 1, 1), slice_of("p", "f-2", 1, 1, 1)]
    planned = plan_with(slices, "LogFileNumBasedCompactionStrategy", log_count_threshold=2)
    assert ids_of(planned) == ["f-2", "f-1"]
    assert "fewer than 2 log files" in planned.skipped[0].reason


@pytest.mark.parametrize(
    ("target_io_mb", "count"),
    [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2), (9, 3), (10**6, 3)],
)
@pytest.mark.parametrize("strategy", ["BoundedIO", "LogFileSizeBased", "LogFileNumBased", "DayBased"])
def test_slice_that_begins_within_the_budget_is_taken(strategy: str, target_io_mb: int, count: int) -> None:
    # Each reads and writes 4 MiB.
    slices = [slice_of("2024/03/01", f"f-{number}", 1, base=2 * MB) for number in range(3)]
    planned = plan_with(slices, f"{strategy}CompactionStrategy", target_io_mb=target_io_mb)
    assert ids_of(planned) == ["f-0", "f-1", "f-2"][:count]
    assert all(f"budget of {target_io_mb} MiB" in verdict.reason for verdict in planned.skipped)


def test_unbounded_takes_everything() -> None:
    slices = [slice_of("p", f"f-{number}", 1, base=5 * MB) for number in range(3)]
    assert len(ids_of(plan_with(slices, "UnBoundedCompactionStrategy", target_io_mb=0))) == 3


@pytest.mark.parametrize(
    "pattern",
    [
        "{:%Y/%m/%d}",
        "{:%Y-%m-%d}",
        "{:%Y%m%d}",
        "day={:%Y-%m-%d}",
        "y={:%Y/m=%m/d=%d}",
        "{:%Y-%m-%d}/13",
        "{:%Y/%m/%d}/eu",
    ],
)
def test_day_based_takes_the_newest_partitions_of_the_table(pattern: str) -> None:
    days = [date(2023, 12, 31), date(2024, 1, 2), date(2024, 1, 10), date(2024, 2, 1)]
    slices = [slice_of(pattern.format(day), f"f-{number}", 1) for number, day in enumerate(days)]
    slices[3] = dataclasses.replace(slices[3], logs=())  # the newest needs no compaction, and counts all the same
    planned = plan_with(slices, "DayBasedCompactionStrategy", target_partitions=3)
    assert ids_of(planned) == ["f-2", "f-1"]
    assert planned.skipped[0].reason == "DayBasedCompactionStrategy: its partition is not among the newest 3"


def test_partition_aware_strategies_share_the_table_between_them() -> None:
    days = ["2024/02/27", "2024/02/29", "2024/03/10", "2024/04/01"]
    slices = [slice_of(day, f"f-{number}", 1) for number, day in enumerate(days)]
    bounded = plan_with(slices, "BoundedPartitionAwareCompactionStrategy", target_partitions=10, target_io_mb=0)
    unbounded = plan_with(slices, "UnBoundedPartitionAwareCompactionStrategy", target_partitions=10)
    assert ids_of(bounded) == ["f-3", "f-2", "f-1"]
    assert ids_of(unbounded) == ["f-0"]
    assert "older than 2024-02-29" in bounded.skipped[0].reason


def test_days_beyond_the_calendar_mean_all_days() -> None:
    slices = [slice_of("1024/02/27", "f-0", 1)]
    assert ids_of(plan_with(slices, "BoundedPartitionAwareCompactionStrategy", target_partitions=10**9)) == ["f-0"]


def test_rows_without_a_date_are_older_than_any() -> None:
    slices = [slice_of("day=__HIVE_DEFAULT_PARTITION__", "f-0", 1), slice_of("day=2024-01-01", "f-1", 1)]
    assert ids_of(plan_with(slices, "DayBasedCompactionStrategy")) == ["f-1", "f-0"]
    assert ids_of(plan_with(slices, "DayBasedCompactionStrategy", target_partitions=1)) == ["f-1"]


@pytest.mark.parametrize("partition", ["eu", "", "2024", "2024/13/01", "2024-02-30", "2024/1-2", "20240101123"])
def test_partition_that_is_no_date_is_refused_by_name(partition: str) -> None:
    with pytest.raises(ConfigError) as caught:
        plan_with([slice_of(partition, "f-0", 1)], "DayBasedCompactionStrategy")
    assert caught.value.context["partition"] == partition


def test_regex_need_match_a_part_only() -> None:
    slices = [slice_of("region=eu/day=1", "f-0", 1), slice_of("region=us/day=1", "f-1", 1)]
    planned = plan_with(slices, "PartitionRegexBasedCompactionStrategy", partition_regex="=(eu|asia)", target_io_mb=0)
    assert ids_of(planned) == ["f-0"]
    assert "does not match '=(eu|asia)'" in planned.skipped[0].reason


def test_strategy_by_regex_without_one_is_refused() -> None:
    with pytest.raises(ConfigError) as caught:
        plan_with([slice_of("p", "f-0", 1)], "PartitionRegexBasedCompactionStrategy")
    assert caught.value.context["option"] == REGEX_KEY


def test_wrong_regex_is_refused_when_the_options_are_read() -> None:
    with pytest.raises(ConfigError) as caught:
        WriteConfig.from_options({REGEX_KEY: "("})
    assert caught.value.context["option"] == REGEX_KEY


@pytest.mark.parametrize("days_first", [True, False])
def test_chain_narrows_partitions_before_it_cuts_slices(days_first: bool) -> None:
    # The largest logs lie in an old partition: they must not use up the budget of the new ones.
    slices = [
        slice_of("2024/01/01", "f-0", 900, base=5 * MB),
        slice_of("2024/03/01", "f-1", 10, base=5 * MB),
        slice_of("2024/03/01", "f-2", 20, base=5 * MB),
    ]
    chain = ["BoundedPartitionAwareCompactionStrategy", "LogFileSizeBasedCompactionStrategy"]
    planned = plan_with(slices, *(chain if days_first else chain[::-1]), target_io_mb=10)
    assert ids_of(planned) == ["f-2"]
    assert {verdict.file_slice.file_id: verdict.reason.split(":")[0] for verdict in planned.skipped} == {
        "f-0": "BoundedPartitionAwareCompactionStrategy",
        "f-1": "LogFileSizeBasedCompactionStrategy",
    }


def test_every_strategy_of_a_chain_cuts_what_the_one_before_left() -> None:
    slices = [slice_of("p", "f-0", 1, 1), slice_of("p", "f-1", 50), slice_of("p", "f-2", 25, 25)]
    chain = ("LogFileNumBasedCompactionStrategy", "LogFileSizeBasedCompactionStrategy")
    assert ids_of(plan_with(slices, *chain, log_count_threshold=2, log_size_threshold=10)) == ["f-2"]


@pytest.mark.parametrize("strategy", CompactionStrategy)
def test_every_strategy_of_the_options_can_be_used(strategy: CompactionStrategy) -> None:
    planned = plan_with([slice_of("2024/01/01", "f-0", 1)], strategy.value, partition_regex="")
    assert len(planned.chosen) + len(planned.skipped) == 1


def test_log_compaction_takes_slices_with_enough_logs_or_blocks() -> None:
    slices = [slice_of("p", "f-0", 1, 1, 1, 1), slice_of("p", "f-1", *[1] * 5), slice_of("q", "f-2", 1)]
    planned = plan_log_compaction(slices, (), block_counts={slices[2].group: 5})
    assert ids_of(planned) == ["f-1", "f-2"]
    assert [verdict.reason for verdict in planned.skipped] == ["4 log files or blocks, fewer than 5"]
    assert planned.plan.is_log_compaction
    assert planned.plan.preserve_meta
    assert planned.plan.missing_partitions == ("p",)
    assert planned.plan.operations[0].data_file is not None


def test_log_compaction_leaves_pending_groups_alone() -> None:
    slices = [slice_of("p", "f-0", 1, 1), slice_of("p", "f-1", 1, 1)]
    planned = plan_log_compaction(slices, {slices[0].group}, 2)
    assert ids_of(planned) == ["f-1"]
    assert "pending" in planned.skipped[0].reason


def test_log_compaction_plan_is_that_of_jvm_hudi() -> None:
    path = "log_compaction_1.2.0.avro"
    theirs = decode_compaction_plan((GOLDEN / path).read_bytes(), path=path)
    ours = plan_log_compaction([slice_of("p", "f-0", 1)], (), 1).plan
    assert dataclasses.replace(ours, operations=()) == dataclasses.replace(theirs, operations=())


@st.composite
def tables(draw: st.DrawFn) -> list[FileSlice]:
    sizes = st.integers(0, 6 * MB)
    return [
        slice_of(
            draw(st.sampled_from(["2024/03/09", "2024-03-01", "day=2024-02-01", "2024/01/01"])),
            f"f-{number}",
            *draw(st.lists(sizes, max_size=3)),
            base=draw(st.none() | sizes),
        )
        for number in range(draw(st.integers(0, 7)))
    ]


SETTINGS = st.builds(
    CompactionSettings,
    strategies=st.lists(st.sampled_from(CompactionStrategy), min_size=1, max_size=3).map(tuple),
    target_io_mb=st.integers(0, 40),
    log_size_threshold=st.integers(0, 4 * MB),
    log_count_threshold=st.integers(0, 3),
    target_partitions=st.integers(0, 40),
    partition_regex=st.sampled_from(["", "03", "day="]),
    base_file_bytes_max=st.just(8 * MB),
)
UNBOUNDED = {
    CompactionStrategy.UNBOUNDED,
    CompactionStrategy.UNBOUNDED_PARTITION_AWARE,
    CompactionStrategy.BOUNDED_PARTITION_AWARE,
    CompactionStrategy.PARTITION_REGEX,
}


@given(tables(), SETTINGS, st.data())
@settings(max_examples=60, deadline=None)
def test_plan_keeps_its_promises(slices: list[FileSlice], chosen: CompactionSettings, data: st.DataObject) -> None:
    pending = frozenset(data.draw(st.sets(st.sampled_from([each.group for each in slices])))) if slices else frozenset()

    planned = plan_compaction(slices, pending, chosen, today=TODAY)

    verdicts = [verdict.file_slice.group for verdict in (*planned.chosen, *planned.skipped)]
    assert sorted(map(str, verdicts)) == sorted(str(each.group) for each in slices if each.logs)
    assert all(verdict.reason for verdict in (*planned.chosen, *planned.skipped))
    groups = [FileGroupId(each.partition_path, each.file_id) for each in planned.plan.operations]
    assert groups == [verdict.file_slice.group for verdict in planned.chosen]
    assert pending.isdisjoint(groups)
    assert set(planned.plan.missing_partitions or ()) == {each.file_slice.partition_path for each in planned.skipped}
    if not UNBOUNDED.issuperset(chosen.strategies):
        costs = [each.metrics["TOTAL_IO_MB"] for each in planned.plan.operations]
        assert sum(costs[:-1]) < chosen.target_io_mb or not costs
    assert decode_compaction_plan(encode_compaction_plan(planned.plan), path="p") == planned.plan
    shuffled = data.draw(st.permutations(slices))
    assert plan_compaction(shuffled, pending, chosen, today=TODAY) == planned
