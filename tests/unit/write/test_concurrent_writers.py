"""Two writers at once: the second one's whole write runs while the first is between its begin and its commit."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.audit import audit
from tests.support.tables import MOR, StepClock, contents, environment, new_table, open_table, rehandled, rows
from tests.support.two_writers import CLOCK, WRITES, opened, prepared, upsert, with_other_in_between

import pyhudi
from pyhudi.environment import SYSTEM
from pyhudi.errors import WriteConflictError
from pyhudi.format.schema.avro_arrow import arrow_to_avro
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage

CONFLICTS = [
    ("update oslo", "update oslo"),
    ("update oslo", "delete in oslo"),
    ("delete in oslo", "update oslo"),
    ("update oslo", "drop oslo"),
    ("drop oslo", "update oslo"),
    ("drop oslo", "drop oslo"),
    ("overwrite oslo", "new key in oslo"),
    ("new key in oslo", "overwrite oslo"),
    ("new key in bern", "same key, new, in bern"),
    ("new key in bern", "insert into bern"),
    ("insert into bern, no duplicates", "new key in bern"),
    ("global new key in bern", "new key in rome"),
    ("global new key in bern", "bulk insert into rome"),
    ("overwrite bern", "bulk insert into bern"),
    ("bulk insert into bern", "overwrite bern"),
    ("overwrite bern", "overwrite bern"),
    ("overwrite all", "update oslo"),
    ("update rome", "overwrite all"),
]
HARMONIES = [
    ("update oslo", "update rome"),
    ("update oslo", "delete in rome"),
    ("drop oslo", "update rome"),
    ("drop oslo", "drop rome"),
    ("overwrite oslo", "update rome"),
    ("new key in bern", "update oslo"),
    ("insert into bern", "new key in bern"),
    ("insert into bern", "insert into bern"),
    ("bulk insert into bern", "bulk insert into bern"),
    ("delete in oslo", "new key in bern"),
    ("overwrite bern", "new key in oslo"),
]


BOTH_TYPES = pytest.mark.parametrize("kind", [pytest.param({}, id="cow"), pytest.param(MOR, id="mor")])


@BOTH_TYPES
@pytest.mark.parametrize(("mine", "theirs"), [pytest.param(*pair, id=" | ".join(pair)) for pair in CONFLICTS])
def test_of_two_conflicting_writes_the_second_to_commit_gives_up_and_leaves_nothing(
    mine: str, theirs: str, kind: dict[str, str]
) -> None:
    storage, alone = prepared(**kind), prepared(**kind)
    WRITES[theirs](opened(alone))

    with pytest.raises(WriteConflictError) as caught:
        WRITES[mine](opened(with_other_in_between(storage, WRITES[theirs])))

    assert caught.value.retry is WriteConflictError.retry
    assert contents(storage) == contents(alone)
    audit(storage)


@BOTH_TYPES
@pytest.mark.parametrize(("mine", "theirs"), [pytest.param(*pair, id=" | ".join(pair)) for pair in HARMONIES])
def test_two_writes_on_different_ground_both_commit(mine: str, theirs: str, kind: dict[str, str]) -> None:
    storage, in_turn = prepared(**kind), prepared(**kind)
    WRITES[theirs](opened(in_turn))
    WRITES[mine](opened(in_turn))

    WRITES[mine](opened(with_other_in_between(storage, WRITES[theirs])))

    assert contents(storage) == contents(in_turn)
    audit(storage)


@pytest.mark.parametrize("version", [6, 8])
def test_conflicts_are_found_in_every_table_version(version: int) -> None:
    storage = prepared(version)

    with pytest.raises(WriteConflictError):
        WRITES["update oslo"](opened(with_other_in_between(storage, upsert((2, "oslo", 9, "x")))))

    assert (2, "oslo", 9, "x") in contents(storage)


def test_a_conflict_is_retried_as_often_as_the_option_says_and_then_sees_the_winner() -> None:
    storage = prepared()
    retry = {"hoodie.write.num.retries.on.conflict.failures": "1"}

    upsert((5, "bern", 9, "mine"), **retry)(opened(with_other_in_between(storage, upsert((5, "bern", 1, "theirs")))))

    assert (5, "bern", 9, "mine") in contents(storage)
    assert len(open_table(storage).scan().to_arrow()) == 4


class CountingClock(StepClock):
    """A clock that remembers how long it was waited for."""

    pauses: list[float]

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


def test_repeated_conflicts_wait_longer_each_time_and_the_error_names_the_winner() -> None:
    inner = prepared()
    clock = CountingClock(CLOCK.ms)
    clock.pauses = []
    wins: list[str] = []

    def win(operation: str, path: str) -> None:
        if operation == "put_if_absent" and path.endswith("inflight") and "rollback" not in path:
            wins.append(opened(inner).upsert(rows((2, "oslo", 9, "theirs"))).instant)

    table = open_table(FaultStorage(inner, before=win), env=environment(clock))

    with pytest.raises(WriteConflictError) as caught:
        table.upsert(rows((1, "oslo", 9, "mine")), hudi_options={"hoodie.write.num.retries.on.conflict.failures": "4"})

    assert len(wins) == 5
    assert caught.value.context["winner"] == wins[-1]
    (group,) = caught.value.context["file_groups"]
    assert group.startswith("city=oslo/")
    longest = [0.1, 0.2, 0.4, 0.8]
    assert all(most / 2 <= pause <= most for pause, most in zip(clock.pauses, longest, strict=True))
    assert len({pause / most for pause, most in zip(clock.pauses, longest, strict=True)}) > 1
    audit(inner)


def test_a_batch_that_another_writer_committed_first_is_not_written_again_by_a_retry() -> None:
    storage = prepared()
    batch = {"hoodie.write.batch.id": "b1", "hoodie.write.num.retries.on.conflict.failures": "3"}
    theirs = lambda t: t.bulk_insert(rows((8, "bern", 1, "once")), hudi_options=batch)  # noqa: E731

    result = opened(with_other_in_between(storage, theirs)).bulk_insert(
        rows((8, "bern", 1, "once")), hudi_options=batch
    )

    assert [row for row in contents(storage) if row[0] == 8] == [(8, "bern", 1, "once")]
    assert result.instant == load_table(storage).timeline.completed_writes[-1].requested_time
    audit(storage)


@pytest.mark.parametrize("version", [6, 9])
def test_a_change_of_columns_gives_way_to_a_write_that_would_hide_it(version: int) -> None:
    storage = prepared(version)
    wider = rows((8, "bern", 1, "x")).append_column("extra", pa.array([1]))
    store = with_other_in_between(storage, WRITES["update oslo"])

    with pytest.raises(WriteConflictError, match="schema"):
        opened(store).insert(wider)
    opened(storage).insert(wider)

    assert "extra" in open_table(storage).scan().to_arrow().column_names


@pytest.mark.parametrize("version", [6, 9])
def test_a_compaction_keeps_columns_that_were_added_while_it_ran(version: int) -> None:
    storage = prepared(version, **MOR)
    WRITES["update oslo"](opened(storage))
    wider = rows((8, "bern", 1, "x")).append_column("extra", pa.array([1]))
    done = False

    def widen(operation: str, path: str) -> None:
        nonlocal done
        if not done and operation == "open_output" and path.endswith(".parquet"):
            done = True
            opened(storage).insert(wider, hudi_options=MOR)

    opened(FaultStorage(storage, before=widen)).services.compact()

    assert done
    assert "extra" in open_table(storage).scan().to_arrow().column_names


def test_a_stream_of_rows_is_not_lost_by_a_retry() -> None:
    storage = prepared()
    batch = rows((1, "oslo", 9, "mine"))
    reader = pa.RecordBatchReader.from_batches(batch.schema, batch.to_batches())
    store = with_other_in_between(storage, upsert((2, "oslo", 5, "theirs")))

    opened(store).upsert(reader, hudi_options={"hoodie.write.num.retries.on.conflict.failures": "1"})

    assert {(1, "oslo", 9, "mine"), (2, "oslo", 5, "theirs")} <= contents(storage)


def test_a_schema_changed_meanwhile_by_another_writer_is_a_conflict() -> None:
    storage = prepared()
    wider = rows((8, "bern", 1, "x")).append_column("extra", pa.array([1]))

    with pytest.raises(WriteConflictError, match="schema"):
        WRITES["update oslo"](opened(with_other_in_between(storage, lambda t: t.insert(wider))))

    assert "extra" in open_table(storage).scan().to_arrow().column_names


def test_two_writers_that_add_the_same_column_do_not_conflict() -> None:
    storage = prepared()

    def wider(city: str) -> pa.Table:
        return rows((8, city, 1, "x")).append_column("extra", pa.array([1]))

    opened(with_other_in_between(storage, lambda t: t.insert(wider("bern")))).insert(wider("wien"))

    assert len(open_table(storage).scan(where=[("extra", "==", 1)]).to_arrow()) == 2


# -- many at once, on local disk --------------------------------------------------------------------------------------


def local_table(folder: Path, kind: str, version: int) -> str:
    pyhudi.HudiTable.create(
        str(folder),
        schema=rows().schema,
        record_key="id",
        partition_by="city",
        ordering_fields="ts",
        table_type=kind,
        table_version=version,
        hudi_options={
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
        },
    )
    return str(folder)


@pytest.mark.parametrize("shared", [pytest.param(False, id="own partitions"), pytest.param(True, id="same keys")])
@pytest.mark.parametrize(("kind", "version"), [("cow", 9), ("mor", 6), ("mor", 9)])
def test_threads_lose_no_acknowledged_write_and_make_no_key_twice(
    tmp_path: Path, kind: str, version: int, shared: bool
) -> None:
    """Merge-on-read tables are compacted by the writers meanwhile."""
    path = local_table(tmp_path / "t", kind, version)
    acknowledged: list[tuple[int, str, int, str]] = []
    failures: list[BaseException] = []

    def write_a_few(writer: int) -> None:
        options = {
            "hoodie.write.num.retries.on.conflict.failures": 3,
            "hoodie.index.bloom.num_entries": 100,
            "hoodie.compact.inline.max.delta.commits": 3,
        }
        try:
            for turn in range(4):
                batch = [
                    (k, "all" if shared else f"w{writer}", turn * 10 + writer, f"{writer}.{turn}") for k in range(3)
                ]
                with suppress(WriteConflictError):
                    pyhudi.HudiTable.for_path(path).upsert(rows(*batch), hudi_options=options)
                    acknowledged.extend(batch)
        except Exception as error:  # noqa: BLE001 - shown by the main thread
            failures.append(error)

    threads = [threading.Thread(target=write_a_few, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert not failures
    table = pyhudi.HudiTable.for_path(path)
    found = [
        (row["id"], row["city"], row["ts"], row["note"])
        for row in table.scan(rows().schema.names).to_arrow().to_pylist()
    ]
    newest: dict[tuple[int, str], tuple[int, str, int, str]] = {}
    for row in acknowledged:
        newest[row[:2]] = max(row, newest.get(row[:2], row), key=lambda r: r[2])
    assert Counter(row[:2] for row in found) == Counter(newest.keys())
    assert set(found) == set(newest.values())
    audit(table.handle.state.storage)


def test_two_tables_of_one_schema_text_are_independent() -> None:
    """The lock of one table does not keep writers of another waiting."""
    first, second = prepared(), prepared()

    opened(with_other_in_between(first, lambda _: upsert((1, "oslo", 9, "x"))(opened(second)))).upsert(
        rows((1, "oslo", 9, "y"))
    )

    assert (1, "oslo", 9, "y") in contents(first)
    assert (1, "oslo", 9, "x") in contents(second)


def test_first_writers_of_one_new_table_agree_on_its_schema() -> None:
    assert arrow_to_avro(rows().schema, table_name="t") == arrow_to_avro(rows().schema, table_name="t")
    storage = MemoryStorage()
    new_table(storage)
    store = with_other_in_between(storage, upsert((1, "oslo", 1, "theirs")))

    rehandled(opened(store), environment=SYSTEM).upsert(rows((1, "rome", 1, "mine")))

    assert contents(storage) == {(1, "oslo", 1, "theirs"), (1, "rome", 1, "mine")}
    assert len(load_table(storage).timeline.completed_writes) == 2


def test_globally_new_key_conflicts_with_an_overwrite_that_adds_rows_elsewhere() -> None:
    storage, alone = prepared(), prepared()
    theirs = WRITES["overwrite oslo"]  # with key 7
    theirs(opened(alone))
    mine = upsert((7, "bern", 1, "n"), **{"hoodie.index.type": "GLOBAL_SIMPLE"})

    with pytest.raises(WriteConflictError):
        mine(opened(with_other_in_between(storage, theirs)))

    assert contents(storage) == contents(alone)
    audit(storage)
