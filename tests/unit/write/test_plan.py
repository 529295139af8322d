from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.format.file_names import BaseFileName
from pyhudi.format.metadata.commit import CommitMetadata, WriteStat
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.table.file_slice import BaseFile, FileSlice
from pyhudi.write.plan import Profile, Sizing, plan_files, record_size_estimate

SIZING = Sizing(max_file_size=1000, small_file_limit=800, record_size=10)


def file_slice(file_id: str, size: int, partition: str = "p") -> FileSlice:
    name = BaseFileName(file_id, "0-0-0", "20260101000000000")
    base = BaseFile(partition, name, f"{partition}/{name}", size)
    return FileSlice(base.group, base.instant_time, base)


def ids() -> object:
    counter = itertools.count()
    return lambda: f"new{next(counter)}-0"


def test_new_rows_fill_the_smallest_file_first_and_then_new_groups() -> None:
    small, smaller, large = file_slice("a-0", 700), file_slice("b-0", 400), file_slice("c-0", 900)

    plan = plan_files(Profile({(0, "p"): 250}, {}), {"p": (small, smaller, large)}, SIZING, ids())

    assert [(b.file_id, b.inserts) for b in plan.assignments] == [
        ("b-0", 60),
        ("a-0", 30),
        ("new0-0", 100),
        ("new1-0", 60),
    ]


def test_a_group_with_updates_and_room_is_rewritten_once() -> None:
    file = file_slice("a-0", 500)

    plan = plan_files(Profile({(0, "p"): 10}, {file: 3}), {"p": (file,)}, SIZING, ids())

    assert [(b.file_id, b.updates, b.inserts) for b in plan.assignments] == [("a-0", 3, 10)]


def test_updates_are_appended_unless_new_rows_join_their_group() -> None:
    appended, packed = file_slice("a-0", 900), file_slice("b-0", 500)

    plan = plan_files(
        Profile({(0, "p"): 10}, {appended: 3, packed: 2}), {"p": (appended, packed)}, SIZING, ids(), appends=True
    )

    assert [(b.file_id, b.updates, b.inserts, b.appends) for b in plan.assignments] == [
        ("a-0", 3, 0, True),
        ("b-0", 2, 10, False),
    ]


def test_new_groups_are_never_appended_to() -> None:
    plan = plan_files(Profile({(0, "p"): 0}, {}), {}, SIZING, ids(), appends=True)

    assert [b.appends for b in plan.assignments] == [False]


def test_no_more_small_files_take_new_rows_than_are_asked_for() -> None:
    small = tuple(file_slice(f"{name}-0", size) for name, size in (("a", 700), ("b", 400), ("c", 500)))
    sizing = Sizing(max_file_size=1000, small_file_limit=800, record_size=10, small_files_max=1)

    plan = plan_files(Profile({(0, "p"): 70}, {}), {"p": small}, sizing, ids())

    assert [(b.file_id, b.inserts) for b in plan.assignments] == [("b-0", 60), ("new0-0", 10)]


def test_packing_is_off_when_the_small_file_limit_is_zero() -> None:
    sizing = Sizing(max_file_size=1000, small_file_limit=0, record_size=10)

    plan = plan_files(Profile({(0, "p"): 10}, {}), {"p": (file_slice("a-0", 10),)}, sizing, ids())

    assert [b.file_id for b in plan.assignments] == ["new0-0"]


def test_a_partition_without_new_rows_still_has_somewhere_for_a_miscounted_one() -> None:
    plan = plan_files(Profile({(0, "p"): 0}, {}), {}, SIZING, ids())

    (quota,) = plan.quotas[0]["p"]
    assert plan.assignments[quota.assignment].previous is None


@settings(max_examples=60, deadline=None)
@given(
    splits=st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["p", "q"]), st.integers(0, 400)), max_size=6),
    sizes=st.lists(st.integers(1, 1200), max_size=4),
)
def test_any_profile_places_each_new_row_once_and_within_the_size(
    splits: list[tuple[int, str, int]], sizes: list[int]
) -> None:
    new_rows = {(split, path): rows for split, path, rows in splits}
    latest = {"p": tuple(file_slice(f"f{n}-0", size) for n, size in enumerate(sizes))}

    plan = plan_files(Profile(new_rows, {}), latest, SIZING, ids())

    for (split, path), rows in new_rows.items():
        quotas = plan.quotas[split][path]
        assert sum(quota.rows for quota in quotas) == rows
        assert all(plan.assignments[quota.assignment].partition_path == path for quota in quotas)
    assert sum(assignment.inserts for assignment in plan.assignments) == sum(new_rows.values())
    for assignment in plan.assignments:
        before = assignment.previous.size if assignment.previous else 0
        assert before + assignment.inserts * SIZING.record_size <= SIZING.max_file_size or assignment.inserts == 0


def commit(rows: int, size: int) -> CommitMetadata:
    stat = WriteStat(file_id="a-0", num_writes=rows, total_write_bytes=size)
    return CommitMetadata(operation=WriteOperation.UPSERT, stats_by_partition={"p": (stat,)})


@pytest.mark.parametrize(
    ("commits", "expected"),
    [
        pytest.param([], 1024, id="no commit yet"),
        pytest.param([commit(10, 50)], 1024, id="too small to tell"),
        pytest.param([commit(10, 50), commit(100, 2000)], 20, id="newest one that is large enough"),
        pytest.param([commit(3, 1000), commit(100, 2000)], 334, id="rounded up"),
    ],
)
def test_record_size_comes_from_the_newest_commit_above_the_threshold(
    commits: list[CommitMetadata], expected: int
) -> None:
    assert record_size_estimate(commits, default=1024, threshold_bytes=100) == expected
