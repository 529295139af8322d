"""Change data across services, dropped partitions, rollbacks and archiving: JVM Hudi's read of it, and ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.oracle import Oracle, OracleError

import pyhudi

OracleOf = Callable[[str], Oracle]
SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("ts", pa.int64()), ("note", pa.string())])
OPTIONS = {
    "hoodie.metadata.enable": "false",
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
}
CAPTURE = {"hoodie.table.cdc.enabled": "true"}
SORTED = {"hoodie.clustering.plan.strategy.sort.columns": "note"}
TEXTS = ",".join(f"{key}={value}" for key, value in OPTIONS.items())

Rows = dict[str, dict[str, Any]]
Change = tuple[str, str, str | None, str | None]


def rows(*values: tuple[str, str, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, (*row, f"n{row[2]}"), strict=True)) for row in values], SCHEMA)


class Life:
    """A table, what its writes should show, and what both sides do with it."""

    def __init__(self, path: Path, kind: str, version: int, oracle: Oracle) -> None:
        self.path, self.kind, self.version, self.oracle = path, kind, version, oracle
        self.expected: dict[str, set[Change]] = {}
        self.before: Rows = {}
        pyhudi.HudiTable.create(
            str(path),
            schema=SCHEMA,
            record_key="id",
            partition_by="part",
            ordering_fields="ts",
            name="trips",
            table_type="cow" if kind == "cow" else "mor",
            table_version=version,
            hudi_options={**OPTIONS, **CAPTURE},
        )

    def table(self, **options: str) -> pyhudi.HudiTable:
        return pyhudi.HudiTable.for_path(str(self.path), hudi_options={**OPTIONS, **options})

    def jvm(self, verb: str, batch: pa.Table) -> None:
        options = {
            **OPTIONS,
            **CAPTURE,
            "hoodie.table.name": "trips",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.table.type": "COPY_ON_WRITE" if self.kind == "cow" else "MERGE_ON_READ",
            "hoodie.datasource.write.operation": verb,
        }
        if self.version == 8:
            options |= {"hoodie.write.table.version": "8", "hoodie.write.auto.upgrade": "false"}
        self.oracle.write(self.path, batch, options)

    def jvm_runs(self, procedure: str, *steps: str, more: str = "", options: str = TEXTS) -> None:
        for step in steps:
            self.oracle.sql(f"CALL {procedure}(path => '{self.path}', op => '{step}',{more} options => '{options}')")

    def compact(self) -> None:
        self.table().services.compact()

    def cluster(self) -> None:
        self.table(**SORTED).services.cluster()

    def note(self) -> None:
        """Keep what the newest writes should show; an overwrite deletes rows, and inserts others."""
        after = {row["id"]: row for row in self.table().scan(SCHEMA.names).to_arrow().to_pylist()}
        shown: set[Change] = {("d", key, self.before[key]["note"], None) for key in self.before.keys() - after.keys()}
        shown |= {("i", key, None, after[key]["note"]) for key in after.keys() - self.before.keys()}
        both = [key for key in after.keys() & self.before.keys() if after[key] != self.before[key]]
        shown |= {("u", key, self.before[key]["note"], after[key]["note"]) for key in both}
        timeline = self.table().handle.state.timeline
        for write in timeline.completed_writes:
            self.expected.setdefault(write.requested_time, shown)
        there = timeline.completed_times
        self.expected = {time: changes for time, changes in self.expected.items() if time in there}
        self.before = after

    def ours(self, position: str) -> list[Change]:
        found = self.table().changes(str(int(position) - 1), position, format="cdc").to_arrow().to_pylist()
        return sorted(map(_short, found), key=repr)

    def theirs(self, instant: str) -> list[Change]:
        asked = {
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.query.incremental.format": "cdc",
            "hoodie.datasource.read.begin.instanttime": str(int(instant) - 1),
            "hoodie.datasource.read.end.instanttime": instant,
        }
        return sorted(map(_short, self.oracle.read(self.path, asked).to_pylist()), key=repr)


def _short(change: dict[str, Any]) -> Change:
    images = (change["before"], change["after"])
    before, after = ({} if image in (None, "null") else json.loads(image) for image in images)
    return change["op"], (before or after)["id"], before.get("note"), after.get("note")


def _merge(table: pyhudi.HudiTable) -> None:
    source = rows(("a", "x", 60), ("n", "y", 60), ("c", "x", 61))
    merge = table.merge(source, on=["id", "part"]).when_matched_delete(condition=pc.field("source.id") == "c")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def _steps(life: Life) -> list[Callable[[], object]]:
    compactions: list[Callable[[], object]] = [lambda: None, lambda: None]
    if life.kind == "mor":
        due = f"{TEXTS},hoodie.compact.inline.max.delta.commits=1"
        compactions = [
            life.compact,
            lambda: life.jvm_runs("run_compaction", "schedule", "run", options=due),
        ]
    return [
        lambda: life.table().insert(rows(("a", "x", 1), ("b", "x", 1), ("c", "x", 1), ("d", "y", 1), ("e", "y", 1))),
        lambda: life.jvm("upsert", rows(("a", "x", 2), ("f", "y", 2))),
        compactions[0],
        lambda: life.table().upsert(rows(("b", "x", 3), ("d", "y", 3))),
        life.cluster,
        lambda: life.jvm("upsert", rows(("a", "x", 4), ("d", "y", 4), ("g", "x", 4))),
        compactions[1],
        lambda: life.table().delete_where([("id", "==", "e")]),
        lambda: life.jvm_runs("run_clustering", "schedule", "execute", more=" order => 'note',"),
        lambda: _merge(life.table()),
        lambda: life.table().update({"note": pc.scalar("u")}, [("part", "==", "y")]),
        lambda: life.table().delete_partition("x"),
        lambda: life.jvm("upsert", rows(("a", "x", 70), ("d", "y", 70))),
        lambda: life.table().truncate(),
        lambda: life.table().insert(rows(("a", "x", 80), ("d", "y", 80))),
        lambda: life.jvm("upsert", rows(("a", "x", 90), ("z", "x", 90))),
        lambda: life.table().upsert(rows(("a", "x", 100))),
        lambda: life.table().recovery.rollback(life.table().handle.state.timeline.completed_writes[-1].requested_time),
        lambda: life.table().upsert(rows(("a", "x", 110), ("d", "y", 110))),
    ]


@pytest.mark.parametrize(
    ("kind", "version"),
    [pytest.param("mor", 9, marks=pytest.mark.quick), ("cow", 9), ("mor", 8), ("cow", 6)],
)
def test_services_change_no_rows_and_both_sides_show_what_was_dropped(
    kind: str, version: int, tmp_path: Path, oracle_of: OracleOf
) -> None:
    life = Life(tmp_path / "trips", kind, version, oracle_of("0.15.0" if version == 6 else "1.2.0"))
    for step in _steps(life):
        step()
        life.note()

    positions = life.table().handle.state.timeline.completion_times
    for instant, expected in life.expected.items():
        found = life.ours(positions[instant])
        assert sorted(expected, key=repr) == found, instant
        if version == 6:
            # Of the rows of replaced file groups, 0.15.0 shows the last one again and again.
            continue
        assert life.theirs(instant) == found, instant

    keep = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "2"}
    assert life.table(**keep).services.archive() is not None
    left = life.table().handle.state.timeline.completed_times
    assert left < life.expected.keys()
    for instant, expected in life.expected.items():
        assert life.ours(positions[instant]) == sorted(expected, key=repr), instant
    archived = next(instant for instant in life.expected if instant not in left)
    if version != 6:
        with pytest.raises(OracleError, match="commit metadata for CDC"):
            life.theirs(archived)
