"""A pyhudi process that stays alive beside JVM Hudi: what it remembers of the metadata table is never taken for new."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.interop.compare import assert_same_rows
from tests.support.oracle import Oracle

import pyhudi

SCHEMA: Final = pa.schema(
    [("id", pa.string()), ("p", pa.string()), ("ts", pa.int64()), ("name", pa.string()), ("v", pa.float64())]
)
NAMES: Final = ("plain", "a$b", "", None, "é\ue000", "late")
PARTITIONS: Final = 10
"""So many that a scan asks the secondary index: with fewer than eight file slices it does not."""
LOCK: Final = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"
INDEXED: Final = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.metadata.record.index.max.filegroup.count": "2",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "2",
    "hoodie.metadata.global.record.level.index.max.filegroup.count": "2",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.index.type": "RECORD_INDEX",
}
WRITES: Final = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "p",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.table.ordering.fields": "ts",
    "hoodie.compact.inline": "false",
    "hoodie.clean.automatic": "false",
    **INDEXED,
}
CLUSTERING: Final = {"hoodie.clustering.plan.strategy.small.file.limit": "104857600"}


@dataclass
class LivingProcess:
    """One table object of this process, and JVM Hudi, which changes the table under it."""

    oracle: Oracle
    path: Path
    kind: str
    name: str
    ts: int = 0
    table: pyhudi.HudiTable = field(init=False)

    def begin(self) -> None:
        self.write("upsert", range(30))
        self.oracle.sql(f"create table {self.name} using hudi location '{self.path}'")
        self.oracle.sql(f"set hoodie.write.lock.provider={LOCK}")
        self.oracle.sql("set hoodie.write.concurrency.mode=optimistic_concurrency_control")
        self.table = pyhudi.HudiTable.for_path(str(self.path), hudi_options=WRITES)

    def write(self, operation: str, numbers: Iterable[int]) -> None:
        options = {**WRITES, "hoodie.write.lock.provider": LOCK, "hoodie.datasource.write.table.type": self.kind}
        options |= {"hoodie.datasource.write.operation": operation, "hoodie.upsert.shuffle.parallelism": "2"}
        self.oracle.write(self.path, self.rows(numbers), options)

    def call(self, procedure: str, arguments: str, options: Mapping[str, str] = {}) -> None:
        given = {**INDEXED, "hoodie.write.lock.provider": LOCK, **options}
        said = ",".join(f"{key}={value}" for key, value in given.items())
        self.oracle.sql(f"CALL {procedure}(table => '{self.name}', {arguments}, options => '{said}')")

    def rows(self, numbers: Iterable[int]) -> pa.Table:
        """New versions of records; each version has another name."""
        self.ts += 1
        return pa.Table.from_pylist(
            [
                {
                    "id": f"k${number:03}",
                    "p": f"p{number % PARTITIONS}",
                    "ts": self.ts,
                    "name": NAMES[(number + self.ts) % len(NAMES)],
                    "v": number / 8 + self.ts,
                }
                for number in numbers
            ],
            schema=SCHEMA,
        )

    def upsert_here(self, *numbers: int) -> None:
        """By the table object that has not been told of what JVM Hudi did."""
        self.table.upsert(self.rows(numbers))

    def assert_same(self, after: str, *, asks: bool) -> None:
        """Every read of this process gives JVM Hudi's rows. `asks`: whether a scan is to use the secondary index."""
        expected = self.oracle.read(self.path, {"hoodie.metadata.enable": "true"})
        self.table.refresh()
        assert_same_rows(expected, self.table.scan().to_arrow(), hint=f"a scan after {after}")
        keys = [f"k${number:03}" for number in range(100)]
        assert_same_rows(expected, self.table.lookup(keys), hint=f"a lookup after {after}")
        for name in (*filter(None, NAMES), "none"):
            scan = self.table.scan(where=[("name", "==", name)])
            wanted = expected.filter(pc.equal(expected["name"], name))
            assert_same_rows(wanted, scan.to_arrow(), hint=f"name {name!r} after {after}")
            uses = [use for use in scan.explain().indexes if use.index == "secondary_index_by_name"]
            assert any(use.note is None for use in uses) is asks, f"{uses} after {after}"


def _compact(life: LivingProcess) -> None:
    life.call("run_compaction", "op => 'scheduleAndExecute'", {"hoodie.compact.inline.max.delta.commits": "1"})


def _drop_and_create(life: LivingProcess) -> None:
    life.oracle.sql(f"drop index by_name on {life.name}")
    life.assert_same("the index was dropped", asks=False)
    life.upsert_here(3, 4, 71)
    life.oracle.sql(f"create index by_name on {life.name} (name)")


STEPS: Final[Mapping[str, Callable[[LivingProcess], None]]] = {
    "upsert": lambda life: life.write("upsert", range(25, 40)),
    "delete": lambda life: life.write("delete", range(12, 16)),
    "compaction": _compact,
    "clustering": lambda life: life.call("run_clustering", "op => 'scheduleAndExecute'", CLUSTERING),
    "clean": lambda life: life.call("run_clean", "retain_commits => 1"),
    "new index": _drop_and_create,
}
"""What JVM Hudi does to the table, one after the other."""


# Until it is refreshed, an index that JVM Hudi built is not asked, with a warning.
@pytest.mark.filterwarnings("ignore::pyhudi.errors.MetadataTableWarning")
@pytest.mark.parametrize("kind", [pytest.param("COPY_ON_WRITE", marks=pytest.mark.thorough), "MERGE_ON_READ"])
def test_process_that_stays_alive_reads_finds_and_writes_what_jvm_hudi_left(
    kind: str, tmp_path: Path, oracle_of: Callable[[str], Oracle]
) -> None:
    life = LivingProcess(oracle_of("1.2.0"), tmp_path / "t", kind, f"living_{kind.lower()}")
    life.begin()
    life.oracle.sql(f"create index by_name on {life.name} (name)")
    life.table.refresh().indexes.refresh("by_name")
    life.assert_same("the index was built", asks=True)
    for number, (step, run) in enumerate(STEPS.items()):
        if step == "compaction" and kind == "COPY_ON_WRITE":
            continue
        life.upsert_here(number, number + 10, 30 + number, 60 + number)
        run(life)
        life.assert_same(step, asks=step != "new index")
    life.table.indexes.refresh("by_name")
    life.upsert_here(5, 6, 80)
    life.assert_same("the new index was refreshed", asks=True)
    life.oracle.sql(f"refresh table {life.name}")
    rows = life.table.refresh().scan(["id"], where=[("name", "==", "plain")]).to_arrow()
    theirs = [row["id"] for row in life.oracle.sql(f"select id from {life.name} where name = 'plain'")]
    assert sorted(theirs) == sorted(rows["id"].to_pylist())
