"""What tasks found out of use is found once for the same files, and anew for all others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import SparkFiles
from tests.support.spark import trip_options

import pyhudi
from pyhudi.config.read_config import ReadConfig
from pyhudi.io.log.block_filter import BlockFilter
from pyhudi.io.slices.mask import OUT_OF_USE_SCHEMA
from pyhudi.merge.rules import MergeRules
from pyhudi.merge.table_rules import TableRules
from pyhudi.read.scan import ScanPlan, ScanSlice, plan_table_scan
from pyhudi.spark.reads import superseded_rows_cache as kept_answers
from pyhudi.spark.reads.superseded_rows_cache import kept
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("ts", pa.int64())])


@dataclass
class CountedFinder:
    """Answers with a word of its own each time it is asked."""

    asked: int = 0

    def __call__(self, **parts: int) -> Iterator[pa.RecordBatch]:
        del parts
        self.asked += 1
        yield answer(self.asked)


@dataclass
class SliceTask:
    """A slice with a log, and a task that reads it."""

    storage: Storage
    plan: ScanPlan
    find: CountedFinder = field(default_factory=CountedFinder)

    @property
    def one(self) -> ScanSlice:
        return self.plan.merged[0]

    def read(self, *, log_part: int = 2, plan: ScanPlan | None = None) -> pa.Table:
        plan = plan or self.plan
        batches = kept(self.storage, plan, plan.merged[0], partial(self.find, base_part=1, log_part=log_part))
        return pa.Table.from_batches(batches, OUT_OF_USE_SCHEMA)


def answer(number: int) -> pa.RecordBatch:
    return pa.record_batch([pa.array([number]), pa.array([1])], schema=OUT_OF_USE_SCHEMA)


def table_with_a_log(path: Path) -> pyhudi.HudiTable:
    table = pyhudi.HudiTable.create(
        str(path), schema=SCHEMA, record_key="id", partition_by="city", ordering_fields="ts", table_type="mor"
    )
    for turn in range(2):
        table.upsert(pa.table([[1, 2], ["oslo", "oslo"], [turn, turn]], schema=SCHEMA))
    return table


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where answers are kept, in the folder that an executor would have."""
    monkeypatch.setattr(SparkFiles, "getRootDirectory", lambda: str(tmp_path))
    return tmp_path / "pyhudi-out-of-use"


@pytest.fixture
def reading(tmp_path: Path, folder: Path) -> SliceTask:
    del folder
    table_with_a_log(tmp_path / "t")
    storage = open_storage(str(tmp_path / "t"), {})
    return SliceTask(storage, plan_table_scan(load_table(storage), ReadConfig()))


def word(table: pa.Table) -> int:
    return int(table.column(0)[0].as_py())


def test_the_same_files_are_asked_about_once(reading: SliceTask, folder: Path) -> None:
    assert reading.read() == reading.read() == pa.Table.from_batches([answer(1)])
    assert reading.find.asked == 1
    assert len(list(folder.iterdir())) == 1


def touched(reading: SliceTask, path: str) -> None:
    found = reading.storage.info(path)
    assert found is not None
    later = (found.modified_ms + 5) * 1_000_000
    os.utime(Path(reading.plan.uri.removeprefix("file:")) / path, ns=(later, later))


def appended(reading: SliceTask, path: str) -> None:
    """One byte more, at the same time: of the two at least one tells."""
    target = Path(reading.plan.uri.removeprefix("file:")) / path
    times = target.stat()
    target.write_bytes(target.read_bytes() + b"x")
    os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))


@pytest.mark.parametrize("change", [touched, appended])
@pytest.mark.parametrize("file", ["base", "log"])
def test_a_file_that_changed_is_asked_about_again(
    reading: SliceTask, folder: Path, change: Callable[[SliceTask, str], None], file: str
) -> None:
    reading.read()
    base = reading.one.files.base
    assert base is not None
    change(reading, base if file == "base" else reading.one.files.logs[0])

    assert word(reading.read()) == 2
    assert len(list(folder.iterdir())) == 1, "the previous answer of a file group gives way"


def by_other_rules(plan: ScanPlan) -> ScanPlan:
    return replace(plan, merging=replace(plan.merging, rules=TableRules(in_logs=MergeRules(null_is_zero=True))))


def of_other_blocks(plan: ScanPlan) -> ScanPlan:
    return replace(plan, merging=replace(plan.merging, blocks=BlockFilter(committed=frozenset())))


def until_then(plan: ScanPlan) -> ScanPlan:
    return replace(plan, merging=replace(plan.merging, blocks=BlockFilter(until="20200101000000000")))


def without_base(plan: ScanPlan) -> ScanPlan:
    one = plan.merged[0]
    return replace(plan, slices=(replace(one, files=replace(one.files, base=None)),))


@pytest.mark.parametrize("changed", [by_other_rules, of_other_blocks, until_then, without_base])
def test_another_question_about_the_same_files_is_asked(
    reading: SliceTask, changed: Callable[[ScanPlan], ScanPlan]
) -> None:
    reading.read()

    assert word(reading.read(plan=changed(reading.plan))) == 2


def test_other_numbers_for_the_files_are_another_question(reading: SliceTask) -> None:
    reading.read()

    assert word(reading.read(log_part=3)) == 2


def test_tables_do_not_share_answers(reading: SliceTask, folder: Path) -> None:
    reading.read()
    elsewhere = replace(reading.plan, uri=f"{reading.plan.uri}-2")

    assert word(reading.read(plan=elsewhere)) == 2
    assert word(reading.read()) == 1
    assert len(list(folder.iterdir())) == 2


@pytest.mark.parametrize("content", [b"", b"ARROW1\0\0", b"nothing of the kind"])
def test_an_answer_that_cannot_be_read_is_found_again(reading: SliceTask, folder: Path, content: bytes) -> None:
    reading.read()
    next(folder.iterdir()).write_bytes(content)

    assert word(reading.read()) == 2
    assert word(reading.read()) == 2


def test_an_answer_that_cannot_be_kept_is_given_all_the_same(
    reading: SliceTask, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, schema: pa.Schema) -> Any:
        Path(path).write_bytes(b"begun")
        raise OSError(28, f"no space left for {schema}")

    monkeypatch.setattr(kept_answers.pa.ipc, "new_file", full)

    assert word(reading.read()) == 1
    assert word(reading.read()) == 2
    assert list(folder.iterdir()) == []


def test_missing_file_is_left_to_the_reader(reading: SliceTask, folder: Path) -> None:
    reading.storage.delete(reading.one.files.logs[0])

    assert word(reading.read()) == 1
    assert not folder.exists()


def test_a_second_query_takes_what_the_first_one_found(spark: Any, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for fare in (1.0, 2.0):
        frame = spark.createDataFrame(
            [("a", "oslo", fare, int(fare))], "uuid string, city string, fare double, ts long"
        )
        options = trip_options(**{"hoodie.datasource.write.table.type": "MERGE_ON_READ"})
        frame.write.format("hudi").options(**options).mode("append").save(str(path))

    def fares() -> list[float]:
        return sorted(row.fare for row in spark.read.format("hudi").load(str(path)).select("fare").collect())

    before = {one: one.read_bytes() for one in answers()}
    assert fares() == fares() == [2.0]

    for one in answers():
        if one.read_bytes() != before.get(one):
            with pa.ipc.open_file(str(one)) as file:
                schema = file.schema
            with pa.ipc.new_file(str(one), schema):
                pass  # nothing is out of use
    assert fares() == [1.0, 2.0], "the answer that was kept is not asked for"


def answers() -> list[Path]:
    return list((Path(SparkFiles.getRootDirectory()) / "pyhudi-out-of-use").glob("*"))
