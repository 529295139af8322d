"""Everything that a table can do is done to a bootstrapped one and to a copy of its rows: both stay equal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.sources import parquet_source

import pyhudi
from pyhudi.errors import UnsupportedFeatureError

Act = Callable[[pyhudi.HudiTable], Any]
INDEXED = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
}
CAPTURED = {"hoodie.table.cdc.enabled": "true"}
BY_IDS = {"hoodie.schema.on.read.enable": "true"}


def own_rows(table: pyhudi.HudiTable, where: Any = None) -> list[dict[str, Any]]:
    rows = table.refresh().scan(where=where).to_arrow()
    rows = rows.drop_columns([name for name in rows.column_names if name.startswith("_hoodie_")])
    return sorted(rows.to_pylist(), key=lambda row: str(row["id"]))


def done(_: object) -> None:
    """The results of these name files and instants."""


def upsert(table: pyhudi.HudiTable) -> object:
    schema = pa.schema([field for field in table.schema if not field.name.startswith("_hoodie_")])
    keys = [("a01", "a"), ("zz9", "b")]
    rows = [{"id": key, "n": 50, "x": 9.5, "z": 7, "ts": 20, "city": city} for key, city in keys]
    written = table.upsert(pa.Table.from_pylist(rows, schema))
    return written.inserted, written.updated


def merge(table: pyhudi.HudiTable) -> object:
    source = pa.table({"id": ["a00", "b11", "q1"], "city": ["a", "b", "c"], "n": [7, 8, 9], "ts": [40, 40, 40]})
    values = {"n": pc.field("source.n"), "ts": pc.field("source.ts")}
    clauses = table.merge(source, on=["id", "city"]).when_matched_update(set=values)
    written = clauses.when_not_matched_insert(values={"id": "source.id", "city": "source.city", **values}).execute()
    return written.inserted, written.updated


def changed_images(begin: str) -> Act:
    def read(table: pyhudi.HudiTable) -> object:
        return sorted(map(str, table.changes(begin, format="cdc_typed").to_arrow().drop_columns("ts_ms").to_pylist()))

    return read


def looked_up(table: pyhudi.HudiTable) -> object:
    return sorted(table.lookup(["a00", "a02", "b11", "zz9", "none"])["n"].to_pylist())


CHANGES: dict[str, Act] = {
    "a new column": lambda table: done(table.alter.add_column("z", pa.int64())),
    "a wider type": lambda table: done(table.alter.change_type("n", pa.int64())),
    "an upsert": upsert,
    "an update": lambda table: table.update({"n": pc.field("n") + 100, "ts": 30}, [("city", "==", "b")]).updated,
    "a delete": lambda table: table.delete_where([("x", ">", 5.5)]).deleted,
    "a merge": merge,
}
AFTERWARDS: dict[str, Act] = {
    "a compaction": lambda table: done(table.services.compact()),
    "a clustering": lambda table: done(table.services.cluster()),
    "a clean": lambda table: done(table.services.clean(hudi_options={"hoodie.clean.commits.retained": "1"})),
    "a new name": lambda table: done(table.alter.rename_column("x", "y", hudi_options=BY_IDS)),
    "a dropped column": lambda table: done(table.alter.drop_column("when")),
    "a dropped partition": lambda table: done(table.delete_partition(["city=b"])),
}


@pytest.mark.parametrize(
    ("table_type", "version", "options"), [("mor", 9, INDEXED | CAPTURED), ("cow", 9, CAPTURED), ("mor", 6, {})]
)
def test_bootstrapped_table_takes_every_change_as_a_copy_of_its_rows_does(
    tmp_path: Path, table_type: str, version: int, options: dict[str, str]
) -> None:
    source = parquet_source(tmp_path / "source")
    both = [
        pyhudi.HudiTable.bootstrap(
            source,
            tmp_path / mode,
            record_key="id",
            ordering_fields="ts",
            mode=mode,
            table_type=table_type,
            table_version=version,
            hudi_options=options,
        )
        for mode in ("metadata_only", "full_record")
    ]

    def check(what: str, act: Act) -> None:
        boot, plain = (act(table.refresh()) for table in both)
        assert boot == plain, what
        assert own_rows(both[0]) == own_rows(both[1]), what

    begins = [table.inspect.history().to_pylist()[-1]["completion_time"] for table in both]
    with pytest.raises(UnsupportedFeatureError, match="files of a bootstrap"):
        both[0].alter.rename_column("x", "y", hudi_options=BY_IDS)
    for what, act in CHANGES.items():
        check(what, act)
    for where in ([("x", ">", 3.0)], [("n", "==", 1)], [("n", ">", 100), ("city", "==", "b")], [("z", "==", 7)]):
        assert own_rows(both[0], where) == own_rows(both[1], where)
    if options:
        images = [changed_images(begin)(table.refresh()) for begin, table in zip(begins, both, strict=True)]
        assert images[0] == images[1]
    if "hoodie.metadata.enable" in options:
        check("a lookup", looked_up)
    for what, act in AFTERWARDS.items():
        if what != "a compaction" or table_type == "mor":
            check(what, act)
    if "hoodie.metadata.enable" in options:
        assert both[0].refresh().inspect.metadata_check().num_rows == 0
