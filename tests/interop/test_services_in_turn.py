"""A life of one table with all services on at both sides: JVM Hudi and we write, clean and archive in turn.

What either writer compacts, clusters, cleans away and archives is what the other one goes on from. A model in Python
says after every turn what the rows are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle, OracleError

import pyhudi
from pyhudi.errors import HistoryNotRetainedError
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Action, Instant, InstantState
from pyhudi.storage.open import open_storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.state import TableState, load_table

OracleOf = Callable[[str], Oracle]
Model = dict[str, int]
"""The value of each key."""

PARTITIONS = ("p0", "p1", "p2")
SERVICES = frozenset({WriteOperation.COMPACT, WriteOperation.CLUSTER, WriteOperation.LOG_COMPACT})
ACTIVE_MAX = 10
"""`hoodie.keep.max.commits` and the three that the last turn adds: a write, a compaction, a clustering."""


def partition_of(key: str) -> str:
    return PARTITIONS[int(key[1:]) % len(PARTITIONS)]


def keys(numbers: Iterable[int], *, only: str | None = None) -> list[str]:
    named = [f"k{number:02}" for number in numbers]
    return [key for key in named if only in (None, partition_of(key))]


def rows_of(chosen: list[str], value: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(chosen, pa.string()),
            "part": pa.array([partition_of(key) for key in chosen], pa.string()),
            "v": pa.array([value] * len(chosen), pa.int64()),
            # Not a long: with one, 1.0.2 cannot read a log in which a key follows its deletion.
            "ts": pa.array([value] * len(chosen), pa.int32()),
        }
    )


def options(table_type: str) -> dict[str, str]:
    """Every service inline, and so often that a life of some twenty writes meets each of them several times."""
    return {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.metadata.enable": "false",
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.clean.automatic": "true",
        "hoodie.clean.commits.retained": "3",
        "hoodie.archive.automatic": "true",
        "hoodie.keep.min.commits": "5",
        "hoodie.keep.max.commits": "7",
        "hoodie.compact.inline": "true" if table_type == "MERGE_ON_READ" else "false",
        "hoodie.compact.inline.max.delta.commits": "3",
        "hoodie.clustering.inline": "true",
        "hoodie.clustering.inline.max.commits": "4",
        "hoodie.clustering.plan.strategy.sort.columns": "v,id",
    }


def told(table: pa.Table) -> list[tuple[str, str, int, str, str]]:
    names = ["id", "part", "v", "_hoodie_record_key", "_hoodie_partition_path"]
    return sorted(zip(*(table[name].to_pylist() for name in names), strict=True))


def as_told(model: Model) -> list[tuple[str, str, int, str, str]]:
    return sorted((key, partition_of(key), value, key, partition_of(key)) for key, value in model.items())


@dataclass(slots=True)
class Life:
    """The table, the model of its rows now, and the models after each write, by the write's instant."""

    oracle: Oracle
    path: Path
    given: dict[str, str]
    model: Model = field(default_factory=dict)
    past: dict[str, Model] = field(default_factory=dict)
    ran: set[tuple[str, bool]] = field(default_factory=set)
    """The services that completed an instant, and whether in a turn of JVM Hudi."""
    seen: set[str] = field(default_factory=set)

    def upsert(self, chosen: list[str], *, by_jvm: bool) -> None:
        self._write(chosen, "upsert", by_jvm=by_jvm)
        self._remember({**self.model, **dict.fromkeys(chosen, self._turn)}, by_jvm=by_jvm)

    def overwrite(self, chosen: list[str], *, by_jvm: bool) -> None:
        """Replace the partitions of the rows by the rows."""
        gone = {partition_of(key) for key in chosen}
        self._write(chosen, "insert_overwrite", by_jvm=by_jvm)
        self._remember(self._without(gone) | dict.fromkeys(chosen, self._turn), by_jvm=by_jvm)

    def delete(self, chosen: list[str], *, by_jvm: bool) -> None:
        if by_jvm:
            self._write(chosen, "delete", by_jvm=True)
        else:
            self.open().delete(rows_of(chosen, self._turn).select(["id", "part"]))
        self._remember({key: value for key, value in self.model.items() if key not in chosen}, by_jvm=by_jvm)

    def delete_partition(self, partition: str, *, by_jvm: bool) -> None:
        if by_jvm:
            named = {"hoodie.datasource.write.partitions.to.delete": partition}
            self._write(keys(range(3), only=partition), "delete_partition", by_jvm=True, **named)
        else:
            self.open().delete_partition(partition)
        self._remember(self._without({partition}), by_jvm=by_jvm)

    def truncate(self) -> None:
        self.open().truncate()
        self._remember({}, by_jvm=False)

    def open(self) -> pyhudi.HudiTable:
        return pyhudi.HudiTable.for_path(str(self.path), hudi_options=self.given)

    def state(self) -> TableState:
        return load_table(open_storage(str(self.path), {}))

    def writes(self) -> list[str]:
        """The active completed writes that no service made."""
        return [one.requested_time for one in self.completed() if self.operation_of(one) not in SERVICES]

    def completed(self) -> tuple[Instant, ...]:
        return tuple(self.state().timeline.completed_writes)

    def operation_of(self, write: Instant) -> WriteOperation:
        now = self.state()
        operation = load_commit_metadata(now.storage, write, now.version).operation
        assert isinstance(operation, WriteOperation)
        return operation

    def check(self) -> None:
        """Both readers give the model now, and for each past write the model of then, unless its files are cleaned."""
        assert told(self.open().scan().to_arrow()) == as_told(self.model)
        assert told(self.oracle.read(self.path)) == as_told(self.model)
        answered = [instant for instant in self.past if self.answers_as_of(instant)]
        assert answered[-1:] == list(self.past)[-1:]
        asked = answered[-3:]
        answers = [self._jvm_as_of(instant) for instant in asked]
        assert answers[-1] is not None
        for instant, theirs in zip(asked, answers, strict=True):
            assert theirs is None or told(theirs) == as_told(self.past[instant]), instant

    def answers_as_of(self, instant: str) -> bool:
        """Whether we give the state after this write, which is then the right one; otherwise we refuse to."""
        try:
            found = self.open().scan(as_of=instant).to_arrow()
        except HistoryNotRetainedError:
            return False
        assert told(found) == as_told(self.past[instant]), instant
        return True

    def _jvm_as_of(self, instant: str) -> pa.Table | None:
        """What JVM Hudi gives, or None where it says that a clean is past this instant, whatever files it left."""
        try:
            return self.oracle.read(self.path, {"as.of.instant": instant})
        except OracleError as error:
            if "Cleaner cleaned up the timestamp" not in str(error):
                raise
            return None

    @property
    def _turn(self) -> int:
        return len(self.past) + 1

    def _write(self, chosen: list[str], operation: str, *, by_jvm: bool, **more: str) -> None:
        rows = rows_of(chosen, self._turn)
        if by_jvm:
            self.oracle.write(self.path, rows, {**self.given, **more, "hoodie.datasource.write.operation": operation})
        else:
            getattr(self.open(), operation)(rows)

    def _without(self, partitions: set[str]) -> Model:
        return {key: value for key, value in self.model.items() if partition_of(key) not in partitions}

    def _remember(self, model: Model, *, by_jvm: bool) -> None:
        (instant,) = [one for one in self.writes() if one > max(self.past, default="")]
        self.model = self.past[instant] = model
        timeline = self.state().timeline
        now = {one.requested_time: self.operation_of(one).value for one in timeline.completed_writes}
        now |= {
            one.requested_time: "clean"
            for one in timeline.instants
            if one.action is Action.CLEAN and one.state is InstantState.COMPLETED
        }
        self.ran |= {(now[one], by_jvm) for one in now.keys() - self.seen if one != instant}
        if self.seen - now.keys():
            self.ran.add(("archive", by_jvm))
        self.seen = set(now)


@pytest.mark.filterwarnings("ignore::pyhudi.config.option.OptionWarning")
@pytest.mark.parametrize(
    ("version", "table_type"),
    [
        (9, "COPY_ON_WRITE"),
        pytest.param(9, "MERGE_ON_READ", marks=pytest.mark.quick),
        (8, "MERGE_ON_READ"),
        (6, "COPY_ON_WRITE"),
    ],
)
def test_writes_and_all_services_of_both_in_turn_keep_every_row_and_the_history(
    version: int, table_type: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle = oracle_of(RELEASE_OF_TABLE_VERSION[version])
    life = Life(oracle, tmp_path / "t", options(table_type))

    life.upsert(keys(range(12)), by_jvm=True)
    life.upsert(keys(range(6, 18)), by_jvm=False)
    life.upsert(keys(range(0, 18, 2)), by_jvm=True)
    life.delete(keys([1, 4]), by_jvm=False)
    life.upsert(keys([1, 5, 19]), by_jvm=True)
    life.upsert(keys(range(9)), by_jvm=False)
    life.check()

    life.delete(keys([2, 7, 19]), by_jvm=True)
    life.overwrite(keys([0, 3, 21], only="p0"), by_jvm=False)
    kept = life.open().savepoints.create(list(life.past)[-1], name="kept").instant
    life.upsert(keys([0, 2, 4, 22]), by_jvm=True)
    life.upsert(keys(range(3, 12)), by_jvm=False)
    life.upsert(keys(range(0, 24, 3)), by_jvm=True)
    life.check()

    life.delete_partition("p1", by_jvm=False)
    life.upsert(keys([1, 7, 8]), by_jvm=True)
    life.upsert(keys(range(12, 18)), by_jvm=False)
    life.overwrite(keys([2, 5, 11], only="p2"), by_jvm=True)
    life.upsert(keys(range(4)), by_jvm=False)
    assert life.answers_as_of(kept)
    life.check()

    oracle.sql(f"CALL delete_savepoint(path => '{life.path}', instant_time => '{kept}')")
    life.delete_partition("p0", by_jvm=True)
    life.upsert(keys(range(0, 12, 2)), by_jvm=False)
    life.delete(keys([0, 8]), by_jvm=True)
    life.upsert(keys(range(6, 15)), by_jvm=False)
    life.check()

    life.truncate()
    life.upsert(keys(range(8)), by_jvm=True)
    life.upsert(keys(range(4, 10)), by_jvm=False)
    life.upsert(keys(range(6)), by_jvm=True)
    life.delete(keys([3]), by_jvm=False)
    life.upsert(keys([3, 9]), by_jvm=True)
    life.check()

    assert len(life.completed()) <= ACTIVE_MAX
    assert not life.answers_as_of(kept)
    history = life.open().inspect.history().to_pylist()
    listed = [row["instant"] for row in history]
    assert len(set(listed)) == len(listed)
    services = {one.value for one in SERVICES}
    assert sorted(row["instant"] for row in history if row["operation"] not in services) == sorted(life.past)
    on = {"clean", "archive", "cluster"} | ({"compact"} if table_type == "MERGE_ON_READ" else set())
    assert life.ran == {(service, by_jvm) for service in on for by_jvm in (False, True)}
