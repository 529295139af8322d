"""`CALL` in a session: the examples of its page, and every procedure on one table with a history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.golden import GOLDEN
from tests.support.pages import ROOT, blocks, run_block

import pyhudi
from pyhudi.errors import ConfigError, InvalidRequestError, SqlStatementError, TableNotFoundError

_SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64()), ("ts", pa.int64())])
_OPTIONS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.clean.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.parquet.small.file.limit": "0",
}
_COLUMNS = {
    name: declared["columns"]
    for name, declared in json.loads((GOLDEN / "sql" / "procedures-1.2.0.json").read_text()).items()
}


def _rows(*ids: int, ts: int = 1) -> pa.Table:
    cities = ["oslo" if one % 2 else "rome" for one in ids]
    return pa.table({"id": [*ids], "city": cities, "fare": [float(ts)] * len(ids), "ts": [ts] * len(ids)}, _SCHEMA)


class _Session:
    """Calls procedures, and checks that each answer has the columns of JVM Hudi."""

    def __init__(self, spark: Any) -> None:
        self.spark, self.called = spark, set[str]()

    def __call__(self, name: str, arguments: str) -> list[tuple[Any, ...]]:
        answer = self.spark.sql(f"CALL {name}({arguments})")
        nullable = {True: "", False: " not null"}
        fields = [f"{one.name} {one.dataType.simpleString()}{nullable[one.nullable]}" for one in answer.schema.fields]
        assert fields == _COLUMNS[name], name
        self.called.add(name)
        return [tuple(row) for row in answer.collect()]


@pytest.fixture
def history(tmp_path: Path) -> pyhudi.HudiTable:
    """A merge-on-read table: three writes, one of them with logs."""
    table = pyhudi.HudiTable.create(
        tmp_path / "trips",
        schema=_SCHEMA,
        record_key="id",
        partition_by="city",
        ordering_fields="ts",
        table_type="mor",
        hudi_options={"hoodie.datasource.write.hive_style_partitioning": "true"},
    )
    table.insert(_rows(1, 2, 3), hudi_options=_OPTIONS)
    table.refresh().insert(_rows(4, 5), hudi_options=_OPTIONS)
    table.refresh().upsert(_rows(1, 2, ts=2), hudi_options=_OPTIONS)
    return table.refresh()


def test_blocks_of_the_page_do_what_it_says(spark: Any, tmp_path: Path) -> None:
    names: dict[str, Any] = {"spark": spark}
    for block in blocks(ROOT / "docs" / "procedures.md"):
        run_block(block, names, folder=tmp_path)


def test_every_procedure_answers_with_the_columns_of_jvm_hudi(
    spark: Any, history: pyhudi.HudiTable, tmp_path: Path
) -> None:
    call = _Session(spark)
    base = tmp_path / "trips"
    name = "called_trips"
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{base}'")
    try:
        _look(call, history, f"table => '{name}'", base)
        _serve(call, f"table => '{name}'", base)
        _change(call, f"table => '{name}'", tmp_path)
    finally:
        spark.sql(f"DROP TABLE {name}")
    call("help", "cmd => 'show_commits'")
    not_run = {"hive_sync", "sync_validate", "partition_bucket_index_manager", "repair_deduplicate"}
    assert set(_COLUMNS) - call.called == not_run


def test_query_right_after_a_rollback_and_a_restore_shows_what_is_left(
    spark: Any, history: pyhudi.HudiTable, tmp_path: Path
) -> None:
    base, name = tmp_path / "trips", "taken_back"
    spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{base}'")

    def shown() -> list[tuple[Any, ...]]:
        by_name = {tuple(row) for row in spark.sql(f"SELECT id, ts FROM {name} WHERE ts > 0").collect()}
        assert by_name == {tuple(row) for row in spark.read.format("hudi").load(str(base)).select("id", "ts").collect()}
        return sorted(by_name)

    try:
        first = [(one, 1) for one in (1, 2, 3, 4, 5)]
        assert shown() == [(1, 2), (2, 2), *first[2:]]
        third, second, _ = history.inspect.history()["instant"].to_pylist()
        spark.sql(f"CALL rollback_to_instant(table => '{name}', instant_time => '{third}')").collect()
        assert shown() == first
        spark.sql(f"CALL create_savepoint(table => '{name}', commit_time => '{second}')").collect()
        history.refresh().upsert(_rows(1, 2, 9, ts=7), hudi_options=_OPTIONS)
        assert shown() == [(1, 7), (2, 7), *first[2:], (9, 7)]
        spark.sql(f"CALL rollback_to_savepoint(table => '{name}')").collect()
        assert shown() == first
    finally:
        spark.sql(f"DROP TABLE {name}")


def _look(call: _Session, table: pyhudi.HudiTable, name: str, base: Path) -> None:
    """Procedures that only look."""
    third = table.inspect.history()["instant"].to_pylist()[0]
    assert [row[7] for row in call("show_commits", name)] == [2, 2, 3]
    assert len(call("show_commits", f"{name}, limit => 1")) == 1
    assert len(call("show_commits_metadata", name)) == 6
    assert call("show_archived_commits", name) == call("show_archived_commits_metadata", name) == []
    assert [row[4] for row in call("show_commit_files", f"{name}, instant_time => '{third}'")] == [1, 1]
    assert len(call("show_commit_partitions", f"{name}, instant_time => '{third}'")) == 2
    assert call("show_commit_write_stats", f"{name}, instant_time => '{third}'")[0][2] == 2
    assert call("show_commit_extra_metadata", f"{name}, metadata_key => 'schema'")[0][0] == third
    assert "ahead by 0 commits" in call("commits_compare", f"table => 'called_trips', path => '{base}'")[0][0]
    assert call("stats_wa", name) == [("Total", 0, 0, "0")]
    assert len(call("show_timeline", f"path => '{base}', filter => \"action = 'deltacommit'\"")) == 3
    sizes = call("stats_file_sizes", name)
    assert sizes[-1][0] == "ALL"
    assert sizes[-1][7] == 6
    assert call("show_table_properties", f"{name}, filter => \"key = 'hoodie.table.type'\"")[0][1] == "MERGE_ON_READ"
    assert len(call("show_fsview_all", name)) == 4
    latest = call("show_fsview_latest", f"{name}, partition_path => 'city=oslo'")
    assert [row[5] for row in latest] in ([0, 1], [1, 0])
    file = latest[0][3].rpartition("/")[2]
    assert call("show_file_status", f"{name}, partition => 'city=oslo', file => '{file}'")[0][0] == "exist"
    assert call("show_fs_path_detail", f"path => '{base}'")[0][2] > 0
    assert call("show_invalid_parquet", f"path => '{base}', needDelete => true") == []
    pattern = f"log_file_path_pattern => '{base}/*/*.log.*'"
    assert {row[2] for row in call("show_logfile_metadata", f"{name}, {pattern}")} == {"PARQUET_DATA_BLOCK"}
    records = call("show_logfile_records", f"{name}, {pattern}, merge => true")
    assert sorted(json.loads(row[0])["id"] for row in records) == [1, 2]
    assert len(call("show_metadata_table_files", f"{name}, partition => 'city=oslo'")) == 3
    assert call("show_metadata_table_partitions", name) == [("city=oslo",), ("city=rome",)]
    assert ("files.logFileCount", "4") in call("show_metadata_table_stats", name)
    bounds = call("show_metadata_table_column_stats", f"{name}, targetColumns => 'id'")
    assert sorted((row[2], row[3]) for row in bounds) == [("1", "3"), ("2", "2"), ("4", "4"), ("5", "5")]
    assert len(call("show_metadata_column_stats_overlap", f"{name}, targetColumns => 'id'")) == 2
    assert call("validate_metadata_table_files", name) == []
    assert all(row[1] == "Yes" for row in call("repair_add_partition_meta", f"{name}, dry_run => false"))
    assert len(call("repair_migrate_partition_meta", name)) == 2
    assert call("repair_corrupted_clean_files", name) == [(True,)]
    assert call("delete_marker", f"{name}, instant_time => '{third}'") == [(True,)]
    for procedure in ("show_bootstrap_mapping", "show_bootstrap_partitions"):
        with pytest.raises(InvalidRequestError, match="not bootstrapped"):
            call(procedure, name)


def _serve(call: _Session, name: str, base: Path) -> None:
    """Table services, savepoints and rollbacks."""
    planned = call("run_compaction", f"op => 'schedule', {name}")
    assert [row[1:] for row in planned] == [(2, "REQUESTED")] == [row[1:] for row in call("show_compaction", name)]
    assert [row[2] for row in call("run_compaction", f"op => 'execute', {name}")] == ["COMPLETED"]
    instant = call("run_clustering", f"{name}, predicate => \"city = 'oslo'\", order => 'id', op => 'schedule'")[0][0]
    assert len(call("run_rollback_inflight_tableservice", f"""{name}, pending_instant => '{instant}',
                    delete_request_instant_file => true""")) == 1  # fmt: skip
    done = call("run_clustering", f"{name}, predicate => \"city = 'oslo'\", show_involved_partition => true")
    assert [row[2:] for row in done] == [("COMPLETED", "city=oslo,city=oslo")]
    assert [row[3] for row in call("show_clustering", name)] == ["*"]
    assert call("create_savepoint", f"{name}, comments => 'c'") == call("delete_savepoint", name) == [(True,)]
    assert call("create_savepoint", name) == [(True,)]
    assert len(call("show_savepoints", name)) == 1
    assert call("rollback_to_savepoint", name) == call("delete_savepoint", name) == [(True,)]
    cleaned = call("run_clean", f"{name}, clean_policy => 'KEEP_LATEST_FILE_VERSIONS', file_versions_retained => 1")
    assert cleaned[0][2] == sum(row[5] for row in call("show_cleans", f"{name}, showArchived => true"))
    assert sum(row[7] for row in call("show_cleans_metadata", name)) == cleaned[0][2]
    assert call("show_clean_plans", name)[0][1] == "COMPLETED"
    last = pyhudi.HudiTable.for_path(base).upsert(_rows(9, ts=9), hudi_options=_OPTIONS).instant
    assert call("rollback_to_instant", f"{name}, instant_time => {last}") == [(True,)]
    rollback = call("show_rollbacks", name)[0]
    assert rollback[1] == last
    assert call("show_rollback_detail", f"{name}, instant_time => '{rollback[0]}'")[0][4] is True
    assert call("archive_commits", f"{name}, min_commits => 2, max_commits => 3, retain_commits => 1") == [(0,)]
    assert call("run_ttl", f"{name}, retain_days => 100") == []


def _change(call: _Session, name: str, folder: Path) -> None:
    """Procedures that change a table, make one, or write elsewhere."""
    exported = folder / "exported"
    assert call("export_instants", f"{name}, local_folder => '{exported}', limit => 2") == [
        (f"Exported 2 Instants to {exported}",)
    ]
    assert len(list(exported.iterdir())) == 2
    assert call("copy_to_temp_view", f"{name}, view_name => 'copied_view', replace => true") == [(0,)]
    assert call.spark.table("copied_view").count() == 5
    assert call("copy_to_table", f"{name}, new_table => 'copied_table', columns => 'id'") == [(0,)]
    assert call.spark.table("copied_table").columns == ["id"]
    call.spark.sql("DROP TABLE copied_table")
    assert call("set_audit_lock", f"{name}, state => 'enabled'")[0][1] == "enabled"
    assert call("show_audit_lock_status", name)[0][1] is True
    assert call("validate_audit_lock", name)[0][1] == "PASSED"
    assert call("cleanup_audit_lock", f"{name}, dry_run => true")[0][1:4] == (0, True, 7)
    assert "Opened" in call("init_metadata_table", f"{name}, read_only => true")[0][0]
    assert "Deleted" in call("delete_metadata_table", name)[0][0]
    assert "Created" in call("create_metadata_table", name)[0][0]
    assert "Initialized" in call("init_metadata_table", name)[0][0]
    properties = folder / "new.properties"
    properties.write_text((folder / "trips/.hoodie/hoodie.properties").read_text() + "\nfrom.a.test=1\n")
    changed = call("repair_overwrite_hoodie_props", f"{name}, new_props_file_path => '{properties}'")
    assert ("from.a.test", "null", "1") in changed
    assert call("downgrade_table", f"{name}, to_version => 'EIGHT'") == [(True,)]
    assert call("upgrade_table", f"{name}, to_version => 9") == [(True,)]
    assert call("drop_partition", f"{name}, partition => 'city=rome'") == [("Success",)]
    with pytest.raises(ConfigError, match="paths of partitions"):  # JVM Hudi deletes all rows
        call("truncate_table", f"{name}, partitions => array()")
    assert call("truncate_table", name) == []
    assert pyhudi.HudiTable.for_path(folder / "trips").scan().count() == 0
    _make(call, folder)


def _make(call: _Session, folder: Path) -> None:
    rows = call.spark.createDataFrame([(1, "oslo", 2.0, 1)], "id long, city string, fare double, ts long")
    rows.write.partitionBy("city").parquet(str(folder / "source"))
    call("run_bootstrap", f"""table => 'made', table_type => 'COPY_ON_WRITE', bootstrap_path => '{folder}/source',
         base_path => '{folder}/made', rowKey_field => 'id', partition_path_field => 'city'""")  # fmt: skip
    assert [row[0] for row in call("show_bootstrap_partitions", f"path => '{folder}/made'")] == ["city=oslo"]
    assert call("show_bootstrap_mapping", f"path => '{folder}/made'")[0][3] == "city=oslo"
    schema = {"type": "record", "name": "r", "fields": [{"name": name} for name in ("id", "city")]}
    (folder / "r.avsc").write_text(json.dumps(schema))
    call("hdfs_parquet_import", f"""table => 'imported', table_type => 'COPY_ON_WRITE', src_path => '{folder}/source',
         target_path => '{folder}/imported', row_key => 'id', partition_key => 'city',
         schema_file_path => '{folder}/r.avsc'""")  # fmt: skip
    assert pyhudi.HudiTable.for_path(folder / "imported").scan().count() == 1


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        ("show_commits(table => 'no_such_table')", TableNotFoundError, "no Hudi table of this name"),
        ("show_commits(path => '/no/such/folder')", TableNotFoundError, "not a Hudi table"),
        ("show_commits()", SqlStatementError, "needs table"),
        ("show_commits(table => 'a', path => 'b')", ConfigError, "not by both"),
        ("show_commits(table => nothing)", ConfigError, "must be a constant"),
        ("show_commits(table => 'a', limit => 1 + 1.5)", SqlStatementError, "limit must be of type int"),
    ],
)
def test_a_call_that_cannot_be_run_is_refused(spark: Any, call: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        spark.sql(f"CALL {call}")


def test_a_filter_that_is_none_is_refused(spark: Any, history: pyhudi.HudiTable, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="filter must be a condition"):
        spark.sql(f"CALL show_timeline(path => '{tmp_path}/trips', filter => 'no_column = 1')")


def test_expressions_and_markers_are_values_of_arguments(spark: Any, history: pyhudi.HudiTable, tmp_path: Path) -> None:
    text = f"CALL show_commits(path => concat('{tmp_path}', '/trips'), limit => :most)"
    assert spark.sql(text, args={"most": 2}).count() == 2
