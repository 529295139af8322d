"""Plans of clusterings: which slices of which partitions go together."""

from __future__ import annotations

from typing import Any

import pytest

from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.format.file_names import BaseFileName, LogFileName
from pyhudi.services.clustering.plan import PlannedClustering, chosen_partitions, plan_clustering
from pyhudi.table.file_slice import BaseFile, FileGroupId, FileSlice, LogFile

PREFIX = "hoodie.clustering.plan.strategy."
PACKAGE = "org.apache.hudi.client.clustering."
INSTANT = "20260101000000000"
DAYS = tuple(f"2026-01-{day:02}" for day in range(1, 31))


def slice_of(partition: str, name: str, size: int | None = 10, *, logs: int = 0) -> FileSlice:
    """A slice with a base file of this size, if it is not None, and logs of a byte."""
    file_name = BaseFileName(name, "0-0-0", INSTANT, ".parquet")
    base = None if size is None else BaseFile(partition, file_name, f"{partition}/{file_name}", size)
    names = [LogFileName(name, INSTANT, version, "0-0-0") for version in range(1, logs + 1)]
    return FileSlice(
        FileGroupId(partition, name),
        INSTANT,
        base,
        tuple(LogFile(partition, log, f"{partition}/{log}", 1) for log in names),
    )


def planned(slices: list[FileSlice], *, held: Any = None, **options: str) -> PlannedClustering:
    config = WriteConfig.from_options({PREFIX + name.replace("_", "."): value for name, value in options.items()})
    return plan_clustering(slices, held or {}, config.clustering, hour=5, base_file_bytes_max=120)


def groups(found: PlannedClustering) -> list[set[str]]:
    return [{each.file_id for each in group.slices} for group in found.plan.groups]


def test_small_files_of_a_partition_go_together_large_ones_first_up_to_the_size_of_a_group() -> None:
    slices = [slice_of("p", "a", 10), slice_of("p", "b", 60), slice_of("p", "c", 50), slice_of("q", "d", 20)]
    found = planned([*slices, slice_of("q", "e", 30)], max_bytes_per_group="100")
    assert groups(found) == [{"c", "a"}, {"e", "d"}]
    assert [choice.file_slice.file_id for choice in found.skipped] == ["b"]
    assert "nothing is sorted" in found.skipped[0].reason


def test_a_file_alone_in_its_group_is_rewritten_to_be_sorted_or_to_merge_its_logs() -> None:
    assert groups(planned([slice_of("p", "a")])) == []
    assert groups(planned([slice_of("p", "a")], sort_columns="x")) == [{"a"}]
    assert groups(planned([slice_of("p", "a", logs=1)])) == [{"a"}]
    single = {"sort_columns": "x", "single_group_clustering_enabled": "false"}
    assert groups(planned([slice_of("p", "a")], **single)) == []


def test_large_files_and_those_of_pending_services_are_left_with_the_reason() -> None:
    slices = [slice_of("p", name, size) for name, size in (("a", 99), ("b", 100), ("c", 1), ("d", 1))]
    found = planned(slices, held={slices[2].group: "held"}, small_file_limit="100")
    assert groups(found) == [{"a", "d"}]
    assert {choice.file_slice.file_id: choice.reason for choice in found.skipped} == {
        "b": "its base file has 100 bytes, not less than 100",
        "c": "held",
    }
    assert found.plan.missing_partitions == ("p",)


def test_groups_beyond_the_maximum_are_left_to_the_next_plan() -> None:
    slices = [slice_of(f"p{n}", f"{n}{x}") for n in range(4) for x in "ab"]
    found = planned(slices, max_num_groups="2")
    assert len(found.plan.groups) == 2
    assert found.plan.missing_partitions == ("p2", "p3")
    assert len(found.chosen) + len(found.skipped) == len(slices)


def test_number_of_files_goes_by_their_target_size_and_a_slice_of_logs_counts_as_a_whole_file() -> None:
    found = planned([slice_of("p", "a", None, logs=2), slice_of("p", "b", 80)], target_file_max_bytes="100")
    (group,) = found.plan.groups
    assert group.output_files == 2
    (logs_only,) = (each for each in group.slices if each.file_id == "a")
    assert logs_only.data_file is None
    assert [name.split(".log.")[1][0] for name in logs_only.delta_files] == ["2", "1"]


def test_plan_names_the_class_that_executes_it_in_jvm_hudi_and_the_sort_columns() -> None:
    plan = planned([slice_of("p", "a"), slice_of("p", "b")], sort_columns="x, y").plan
    assert plan.strategy_class == f"{PACKAGE}run.strategy.SparkSortAndSizeExecutionStrategy"
    assert plan.strategy_params == {f"{PREFIX}sort.columns": "x,y"}
    assert plan.keeps_meta


def test_single_file_strategy_makes_a_group_of_each_file() -> None:
    options = {"hoodie.clustering.plan.strategy.class": f"{PACKAGE}plan.strategy.SparkSingleFileSortPlanStrategy"}
    config = WriteConfig.from_options(options)
    slices = [slice_of("p", "a"), slice_of("p", "b")]
    found = plan_clustering(slices, {}, config.clustering, hour=5, base_file_bytes_max=120)
    assert groups(found) == [{"a"}, {"b"}]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, DAYS, id="all"),
        pytest.param({"hoodie.clustering.plan.partition.filter.mode": "RECENT_DAYS"}, DAYS[:-3:-1], id="recent"),
        pytest.param(
            {f"{PREFIX}class": f"{PACKAGE}plan.strategy.SparkRecentDaysClusteringPlanStrategy"},
            DAYS[:-3:-1],
            id="recent by class",
        ),
        pytest.param(
            {
                "hoodie.clustering.plan.partition.filter.mode": "RECENT_DAYS",
                f"{PREFIX}daybased.lookback.partitions": "3",
                f"{PREFIX}daybased.skipfromlatest.partitions": "1",
            },
            ("2026-01-29", "2026-01-28", "2026-01-27"),
            id="recent but the last",
        ),
        pytest.param(
            {
                f"{PREFIX}class": f"{PACKAGE}plan.strategy.SparkSelectedPartitionsClusteringPlanStrategy",
                f"{PREFIX}cluster.begin.partition": "2026-01-05",
                f"{PREFIX}cluster.end.partition": "2026-01-06",
            },
            DAYS[4:6],
            id="between",
        ),
        pytest.param(
            {"hoodie.clustering.plan.partition.filter.mode": "DAY_ROLLING"}, (DAYS[5], DAYS[29]), id="rolling"
        ),
        pytest.param({f"{PREFIX}partition.selected": "2026-01-03,2025-01-01"}, (DAYS[2],), id="selected"),
        pytest.param({f"{PREFIX}partition.regex.pattern": "2026-01-1"}, (), id="regex matches the whole path"),
        pytest.param({f"{PREFIX}partition.regex.pattern": "2026-01-1[01]"}, DAYS[9:11], id="regex"),
        pytest.param(
            {f"{PREFIX}partition.regex.pattern": ".*", f"{PREFIX}partition.selected": DAYS[0]},
            (DAYS[0],),
            id="selected before regex",
        ),
    ],
)
def test_partitions_are_chosen_as_in_hudi(options: dict[str, str], expected: tuple[str, ...]) -> None:
    config = WriteConfig.from_options(options)
    assert chosen_partitions(reversed(DAYS), config.clustering, hour=5) == tuple(expected)


def test_partition_that_is_not_chosen_keeps_its_files_with_the_reason() -> None:
    found = planned([slice_of(p, f"{p}{x}") for p in "pq" for x in "ab"], partition_selected="q")
    assert {choice.file_slice.partition_path for choice in found.chosen} == {"q"}
    assert {choice.reason for choice in found.skipped} == {"its partition is not among those that the options choose"}


@pytest.mark.parametrize(
    ("options", "error"),
    [
        pytest.param({f"{PREFIX}class": "com.example.Mine"}, ConfigError, id="unknown strategy"),
        pytest.param(
            {f"{PREFIX}class": f"{PACKAGE}plan.strategy.SparkStreamCopyClusteringPlanStrategy"},
            UnsupportedFeatureError,
            id="plans of copies",
        ),
        pytest.param(
            {"hoodie.clustering.plan.partition.filter.mode": "SELECTED_PARTITIONS"}, ConfigError, id="no bounds"
        ),
        pytest.param(
            {"hoodie.clustering.inline": "true", "hoodie.clustering.schedule.inline": "true"},
            ConfigError,
            id="both run and scheduled",
        ),
        pytest.param(
            {"hoodie.clustering.updates.strategy": "SparkAllowUpdateStrategy"}, ConfigError, id="unsafe updates"
        ),
        pytest.param({f"{PREFIX}max.num.groups": "0"}, ConfigError, id="no groups"),
        pytest.param(
            {"hoodie.write.lock.conflict.resolution.strategy": "com.example.Mine"},
            UnsupportedFeatureError,
            id="a class of the user's own",
        ),
    ],
)
def test_options_that_contradict_or_name_the_unknown_are_refused(
    options: dict[str, str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        WriteConfig.from_options(options)
