"""The wrappers of reader and writer: only `hudi` is touched, and everything can be undone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import readwriter

from pyhudi.config.option import OptionWarning
from pyhudi.errors import ConfigError, InvalidRequestError, TableNotFoundError, UnsupportedFeatureError
from pyhudi.spark import writer
from pyhudi.spark.capabilities import IS_4
from pyhudi.spark.engine import SparkEngine
from pyhudi.sql import enable as enabling
from pyhudi.write.save import SaveMode


@dataclass
class RecordedSaves:
    """The calls that reached `pyhudi.write.save.save`."""

    calls: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, rows: Any, path: str, **named: Any) -> None:
        self.calls.append({"rows": rows, "path": path, **named})


@pytest.fixture
def saves(monkeypatch: pytest.MonkeyPatch) -> RecordedSaves:
    noted = RecordedSaves()
    monkeypatch.setattr(writer, "save", noted)
    return noted


@pytest.fixture
def enabled_afterwards(spark: Any) -> Iterator[None]:
    yield
    enabling.enable(spark)


def test_chain_of_calls_becomes_one_save(spark: Any, saves: RecordedSaves) -> None:
    rows = spark.range(1)

    rows.write.option("a.x", 1).format("Hudi").options(**{"b.x": True, "c.x": None}).partitionBy("x", "y").mode(
        "append"
    ).save("/t")

    [call] = saves.calls
    assert (call["rows"], call["path"], call["mode"]) == (rows, "/t", SaveMode.APPEND)
    assert call["engine"] == SparkEngine(spark)
    assert call["options"] == {"a.x": "1", "b.x": "true", "hoodie.datasource.write.partitionpath.field": "x,y"}


@pytest.mark.parametrize("name", ["org.apache.hudi", "ORG.apache.Hudi"])
def test_format_may_be_named_by_its_package(spark: Any, saves: RecordedSaves, tmp_path: Path, name: str) -> None:
    spark.range(1).write.format(name).save("/t")
    assert [call["path"] for call in saves.calls] == ["/t"]

    with pytest.raises(TableNotFoundError):
        spark.read.format(name).load(str(tmp_path))
    with pytest.raises(TableNotFoundError):
        spark.read.load(str(tmp_path), format=name)


def test_option_set_again_in_another_case_has_its_last_value(spark: Any, saves: RecordedSaves) -> None:
    write = spark.range(1).write.format("hudi").option("HOODIE.TABLE.NAME", "a").option("hoodie.table.name", "b")
    write.option("hoodie.Table.Name", "c").save("/t")

    assert saves.calls[0]["options"] == {"hoodie.table.name": "c"}


def test_session_says_how_to_reach_an_object_store_unless_the_call_does(spark: Any, saves: RecordedSaves) -> None:
    of_session = {"fs.s3a.encryption.algorithm": "SSE-KMS", "fs.s3a.access.key": "session's"}
    for name, value in of_session.items():
        spark.conf.set(f"spark.hadoop.{name}", value)
    try:
        write = spark.range(1).write.format("hudi").option("FS.s3a.access.key", "mine")
        write.save("s3a://bucket/t")
        write.save("/t")
    finally:
        for name in of_session:
            spark.conf.unset(f"spark.hadoop.{name}")

    remote, local = (call["options"] for call in saves.calls)
    # PySpark 4.0 sets these two itself.
    remote = {name: value for name, value in remote.items() if not name.startswith("fs.s3a.vectored.")}
    assert remote == {"fs.s3a.encryption.algorithm": "SSE-KMS", "FS.s3a.access.key": "mine"}
    assert local == {"FS.s3a.access.key": "mine"}


def test_option_of_a_read_in_upper_case_counts(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    spark.range(1).write.format("hudi").options(**options).save(path)

    with pytest.raises(InvalidRequestError):
        spark.read.format("hudi").option("AS.OF.INSTANT", "yesterday").load(path)


def test_option_of_other_formats_warns(spark: Any, saves: RecordedSaves) -> None:
    with pytest.warns(OptionWarning, match="compression has no effect on a Hudi table"):
        spark.range(1).write.format("hudi").option("compression", "gzip").save("/t")


@pytest.mark.parametrize("name", ["pathGlobFilter", "modifiedAfter"])
def test_option_by_which_other_formats_leave_files_out_is_refused(spark: Any, name: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=f"{name} selects files"):
        spark.read.format("hudi").option(name, "2026-01-01").load("/t")


def test_arguments_of_save_win_over_the_chain(spark: Any, saves: RecordedSaves) -> None:
    spark.range(1).write.mode("append").option("a.x", "1").save("/t", "hudi", "overwrite", ["x"], **{"a.x": "2"})

    [call] = saves.calls
    assert (call["path"], call["mode"]) == ("/t", SaveMode.OVERWRITE)
    assert call["options"]["a.x"] == "2"
    assert call["options"]["hoodie.datasource.write.partitionpath.field"] == "x"


def test_mode_is_errorifexists_and_path_an_option_if_not_given(spark: Any, saves: RecordedSaves) -> None:
    spark.range(1).write.format("hudi").option("path", "/t").save()

    assert (saves.calls[0]["path"], saves.calls[0]["mode"]) == ("/t", SaveMode.ERROR_IF_EXISTS)


def test_partition_by_may_repeat_the_option_but_not_contradict_it(spark: Any, saves: RecordedSaves) -> None:
    write = spark.range(1).write.format("hudi").partitionBy("x")
    option = "hoodie.datasource.write.partitionpath.field"

    write.option(option, "x:SIMPLE").save("/t")
    with pytest.raises(ConfigError, match="partitionBy"):
        write.option(option, "y").save("/t")

    assert [call["options"][option] for call in saves.calls] == ["x:SIMPLE"]


@pytest.mark.parametrize("call", ["bucketBy", "sortBy", *(["clusterBy"] if IS_4 else [])])
def test_layout_calls_of_other_formats_are_refused(spark: Any, saves: RecordedSaves, call: str) -> None:
    write = spark.range(1).write.format("hudi")
    getattr(write, call)(*([4, "id"] if call == "bucketBy" else ["id"]))

    with pytest.raises(UnsupportedFeatureError, match=call):
        write.save("/t")
    assert saves.calls == []


def test_read_with_a_schema_or_several_paths_is_refused(spark: Any) -> None:
    with pytest.raises(UnsupportedFeatureError, match="schema"):
        spark.read.format("hudi").schema("id long").load("/t")
    with pytest.raises(UnsupportedFeatureError, match="schema"):
        spark.read.load("/t", format="hudi", schema="id long")
    with pytest.raises(ConfigError, match="one path"):
        spark.read.format("hudi").load(["/t", "/u"])
    with pytest.raises(ConfigError, match="path of the table is missing"):
        spark.read.format("hudi").load()


def test_other_formats_pass_through(spark: Any, saves: RecordedSaves, tmp_path: Path) -> None:
    target = str(tmp_path / "rows")
    rows = spark.createDataFrame([(1, "a"), (2, "b")], "id int, part string")

    rows.write.format("csv").option("header", "true").mode("append").partitionBy("part").save(target)
    read = spark.read.format("csv").option("header", "true").schema("id int, part string").load(target)
    rows.write.save(str(tmp_path / "parquet"), "parquet", "overwrite", "part", compression="gzip")

    assert sorted(map(tuple, read.collect())) == [(1, "a"), (2, "b")]
    assert list((tmp_path / "parquet" / "part=a").glob("*.gz.parquet"))
    assert saves.calls == []


def test_last_format_of_a_chain_counts(spark: Any, saves: RecordedSaves, tmp_path: Path) -> None:
    spark.range(3).write.format("hudi").format("json").save(str(tmp_path / "json"))

    assert spark.read.format("hudi").format("json").load(str(tmp_path / "json")).count() == 3
    assert saves.calls == []


@pytest.mark.usefixtures("enabled_afterwards")
def test_disabling_restores_the_very_methods_and_enabling_twice_is_once(spark: Any) -> None:
    classes = (readwriter.DataFrameReader, readwriter.DataFrameWriter)
    enabling.disable()
    before = [dict(vars(owner)) for owner in classes]

    assert enabling.enable(spark) is spark
    once = [dict(vars(owner)) for owner in classes]
    enabling.enable(spark)
    twice = [dict(vars(owner)) for owner in classes]
    enabling.disable()

    assert before != once == twice
    assert [dict(vars(owner)) for owner in classes] == before


@pytest.mark.parametrize(("named", "expected"), [(None, sys.executable), ("/opt/python3", "python3")])
def test_workers_on_this_machine_run_this_python_unless_a_variable_names_theirs(
    spark: Any, monkeypatch: pytest.MonkeyPatch, named: str | None, expected: str
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python3")  # as PySpark has it without the variable
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    if named is not None:
        monkeypatch.setenv("PYSPARK_PYTHON", named)

    enabling.enable(spark)

    assert spark.sparkContext.pythonExec == expected
