"""Merge-on-read tables that two parties write, plan and compact in turn; after each step all must see the same rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.interop.compare import WRITER_META, assert_same_rows
from tests.interop.deviations import SEQUENCE_NUMBER, late_changes
from tests.interop.life import ModelTable, Operation, Turn
from tests.interop.merge_on_read_life import Service, Side, Step, merge_on_read_life_of, wild_life_of
from tests.interop.parties import Changes, Compactor, HudiRs, JvmHudi, Pyhudi, Question, Reader, ReadOptimized
from tests.interop.shapes import EVENT_TIME_PAYLOAD, Shape
from tests.interop.timeline_folder import completed_compactions, completed_turns, completed_writes, planned_compactions
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

OracleOf = Callable[[str], Oracle]

COMPLEX = ("region", "id")
AVRO = {"hoodie.logfile.data.block.format": "avro"}
BY_EVENT_TIME = {
    "hoodie.datasource.write.payload.class": EVENT_TIME_PAYLOAD,
    "hoodie.compaction.payload.class": EVENT_TIME_PAYLOAD,
}

THOROUGH = pytest.mark.thorough

LIVES = [
    (Shape(name="hive", table_version=9, partition_by=("city",), hive_style=True, metadata=False), "us"),
    pytest.param(
        Shape(name="none-complex-avro", table_version=9, record_key=COMPLEX, more_options=AVRO), "jvm", marks=THOROUGH
    ),
    pytest.param(
        Shape(name="hive", table_version=8, partition_by=("city",), hive_style=True, metadata=False),
        "jvm",
        marks=THOROUGH,
    ),
    (Shape(name="levels-avro", table_version=8, partition_by=("city", "year"), more_options=AVRO), "us"),
    pytest.param(
        Shape(name="hive", table_version=6, partition_by=("city",), hive_style=True, metadata=False),
        "us",
        marks=THOROUGH,
    ),
    (Shape(name="event-time", table_version=6, partition_by=("city",), more_options=BY_EVENT_TIME), "jvm"),
    pytest.param(
        Shape(name="none-complex-avro", table_version=6, record_key=COMPLEX, metadata=False, more_options=AVRO),
        "jvm",
        marks=THOROUGH,
    ),
]
OLD_TABLES = [
    pytest.param(
        Shape(
            name="hive",
            table_version=version,
            partition_by=("city",),
            hive_style=True,
            metadata=False,
            created_by_newest=True,
        ),
        marks=marks,
    )
    for version, marks in ((6, ()), (8, THOROUGH))
]


def live(path: Path, shape: Shape, parties: Mapping[Side, Compactor], judge: Reader, readers: list[Reader]) -> None:
    """Let the parties take their steps; after each, `judge` must agree with the model and the readers with it."""
    model = ModelTable(shape)
    for number, step in enumerate(merge_on_read_life_of(shape)):
        take(path, shape, parties[step.side], step.does)
        match step.does:
            case Turn():
                model.apply(step.does)
            case Service.SCHEDULE:
                assert planned_compactions(path)
            case Service.COMPACT:
                assert completed_compactions(path)
        asked = [one for one in readers if not (isinstance(one, HudiRs) and loses_new_logs(shape, path))]
        hint = f"step {number} ({step} by {parties[step.side]})"
        turns = completed_turns(path)
        rows = judge.read(path)
        expected = model.expected([write.requested for write in turns])
        assert_same_rows(expected, rows, ignore=WRITER_META, hint=f"{hint}, read by {judge}")
        agree(rows, path, None, asked, hint)
        question = ReadOptimized() if changes_base_files(step) else Changes(turns[-2].position)
        agree(judge.read(path, question), path, question, asked, hint, snapshot=rows)
    assert_closed_interval(path, Changes(turns[0].position, turns[-3].position), judge, rows)


def assert_closed_interval(path: Path, interval: Changes, judge: Reader, snapshot: pa.Table) -> None:
    """We must give JVM Hudi's rows but for late ones that lost, and besides only such as were written again later.

    1.0.2 and 1.2.0 answer from base files that were compacted later on, and lose rows of the interval that have newer
    versions there. Our answer stays what it was at the end of the interval.
    """
    expected, rows = judge.read(path, interval), Pyhudi().read(path, interval)
    ours, theirs, newest = (
        pc.field(SEQUENCE_NUMBER).isin(table.column(SEQUENCE_NUMBER).combine_chunks())
        for table in (rows, expected, snapshot)
    )
    due = expected.filter(ours)
    assert_same_rows(due, rows.filter(theirs), ignore=["_hoodie_file_name"], hint=f"{interval}")
    for more in (rows.filter(~theirs), expected.filter(~ours)):
        assert not more.filter(newest).num_rows, interval


def loses_new_logs(shape: Shape, path: Path) -> bool:
    """Where hudi-rs gives a wrong snapshot: it does not see logs that a pending compaction of version 6 leaves out."""
    return shape.table_version == 6 and bool(planned_compactions(path))


def changes_base_files(step: Step) -> bool:
    """Whether a step is about more than logs: a service, or a write of new rows."""
    return isinstance(step.does, Service) or step.does.operation not in (Operation.UPSERT, Operation.DELETE)


def take(path: Path, shape: Shape, party: Compactor, does: Turn | Service) -> None:
    """One step."""
    match does:
        case Turn():
            party.write(path, shape, does)
        case Service.SCHEDULE:
            party.schedule(path, shape)
        case Service.RUN:
            run_all(path, shape, party)
        case Service.COMPACT:
            party.schedule(path, shape)
            run_all(path, shape, party)


def run_all(path: Path, shape: Shape, party: Compactor) -> None:
    """Run what is planned."""
    for instant in planned_compactions(path):
        party.run(path, shape, instant)
    assert not planned_compactions(path)


def agree(
    expected: pa.Table,
    path: Path,
    question: Question,
    readers: list[Reader],
    hint: str,
    *,
    snapshot: pa.Table | None = None,
) -> None:
    """Every reader must answer the question with these rows. `snapshot`: of the same moment, where it plays a part."""
    for reader in readers:
        due, rows = expected, reader.read(path, question)
        if isinstance(question, Changes) and snapshot is not None:
            late = pc.field(SEQUENCE_NUMBER).isin(late_changes(expected, snapshot))
            due = due.filter(~late)
            if isinstance(reader, HudiRs):
                rows = rows.filter(~late)
        assert_same_rows(due, rows, hint=f"{hint}, {question or 'snapshot'}, read by {reader}")


@pytest.mark.parametrize(("shape", "first"), LIVES, ids=str)
def test_alternating_writers_and_compactors_everybody_sees_the_same_rows(
    shape: Shape, first: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    shape = replace(shape, merge_on_read=True)
    jvm, us = JvmHudi(oracle_of(RELEASE_OF_TABLE_VERSION[shape.table_version])), Pyhudi()
    parties = {Side.A: us, Side.B: jvm} if first == "us" else {Side.A: jvm, Side.B: us}
    live(tmp_path / "t", shape, parties, jvm, [us, HudiRs()])


@pytest.mark.parametrize("shape", OLD_TABLES, ids=str)
def test_newest_release_and_we_alternate_on_an_old_table_without_upgrading_it(
    shape: Shape, tmp_path: Path, oracle_of: OracleOf
) -> None:
    # The releases of these versions are not asked: they do not find the ordering field under the name that 1.2.0 gives
    # it, and so let late rows win.
    shape = replace(shape, merge_on_read=True)
    newest, us = JvmHudi(oracle_of("1.2.0")), Pyhudi()
    live(tmp_path / "t", shape, {Side.A: newest, Side.B: us}, newest, [us, HudiRs()])


V6_LATEST, V6_EVENT_TIME, V8, V9 = (
    Shape(name=name, table_version=version, partition_by=("city",), metadata=False, more_options=options)
    for name, version, options in [
        ("latest", 6, {}),
        ("event-time", 6, BY_EVENT_TIME),
        ("event-time", 8, {}),
        ("event-time", 9, {}),
    ]
)
WILD_LIVES = [
    pytest.param(V6_LATEST, 1, marks=THOROUGH),
    pytest.param(V6_LATEST, 3, marks=THOROUGH),
    # Changes that lose against a base file which a write in the interval made.
    (V6_EVENT_TIME, 4),
    pytest.param(V6_EVENT_TIME, 2, marks=THOROUGH),
    (V8, 1),
    pytest.param(V8, 2, marks=THOROUGH),
    pytest.param(V9, 1, marks=pytest.mark.quick),
    pytest.param(V9, 2, marks=THOROUGH),
]


@pytest.mark.parametrize(("shape", "seed"), WILD_LIVES, ids=str)
def test_random_versions_in_random_order_are_merged_as_jvm_hudi_merges_them(
    shape: Shape, seed: int, tmp_path: Path, oracle_of: OracleOf
) -> None:
    shape, path = replace(shape, merge_on_read=True), tmp_path / "t"
    jvm, us = JvmHudi(oracle_of(RELEASE_OF_TABLE_VERSION[shape.table_version])), Pyhudi()
    parties: dict[Side, Compactor] = {Side.A: us, Side.B: jvm}
    story: list[str] = []
    for number, step in enumerate(wild_life_of(shape, seed=seed)):
        take(path, shape, parties[step.side], step.does)
        story.append(f"{number} {story_of(step)} by {parties[step.side]}")
        expected, rows = jvm.read(path), us.read(path)
        assert_same_rows(expected, rows, hint="\n".join(["", *story]))
    newest = jvm.read(path)
    questions: tuple[Question, ...] = (ReadOptimized(), *spans(path))
    for question in questions:
        expected, rows = jvm.read(path, question), us.read(path, question)
        if isinstance(question, Changes):
            late, again = late_changes(expected, rows), late_changes(rows, expected)
            now = newest.column(SEQUENCE_NUMBER).combine_chunks()
            assert not pc.any(pc.is_in(late, value_set=now)).as_py(), "a row of the table is missing"
            assert question.end or pc.all(pc.is_in(again, value_set=now)).as_py() is not False, "a row was superseded"
            expected = expected.filter(~pc.field(SEQUENCE_NUMBER).isin(late))
            rows = rows.filter(~pc.field(SEQUENCE_NUMBER).isin(again))
        assert_same_rows(expected, rows, hint="\n".join(["", *story, str(question)]))


def story_of(step: Step) -> str:
    """A step in one line, with keys, ordering values and deletes."""
    if not isinstance(step.does, Turn):
        return str(step)
    rows = [
        f"{row['id']}@{row['ts']}{' gone' if row['_hoodie_is_deleted'] else ''}" for row in step.does.rows.to_pylist()
    ]
    return f"{step}: {', '.join(rows)}"


def spans(path: Path) -> list[Changes]:
    """Intervals of the timeline: from its first third on, and the middle of it."""
    positions = [write.position for write in completed_writes(path)]
    count = len(positions)
    return [Changes(positions[count // 3]), Changes(positions[count // 4], positions[3 * count // 4])]
