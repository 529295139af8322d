"""A write goes through the states of its instant one after the other; conflicts say which table they are about."""

from __future__ import annotations

import pytest
from tests.support.table_builder import every_version
from tests.support.tables import environment, new_table, open_table, rows

from pyhudi.errors import AlreadyExistsError, HudiError, InternalError, LockLostError, WriteConflictError
from pyhudi.format.metadata.commit import CommitMetadata
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.instant import Action
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.state import load_table
from pyhudi.transaction.conflicts.footprint import UniqueKeys
from pyhudi.transaction.settings import TransactionSettings
from pyhudi.transaction.transaction import begin, commit, mark_inflight

NOTHING = CommitMetadata(operation=WriteOperation.UPSERT, stats_by_partition={})


def table_of(version: int) -> MemoryStorage:
    storage = MemoryStorage()
    new_table(storage, version=version).insert(rows((1, "oslo", 1, "a")))
    return storage


def instants_of(storage: MemoryStorage) -> dict[str, bytes]:
    return {
        info.path: storage.read(info.path)
        for info in storage.list_recursive(".hoodie")
        if ".commit" in info.path or ".inflight" in info.path
    }


@every_version
def test_write_that_is_only_requested_cannot_be_completed(version: int) -> None:
    storage = table_of(version)
    env = environment()
    with (
        begin(
            load_table(storage), Action.COMMIT, requested=b"", settings=TransactionSettings(), environment=env
        ) as transaction,
        pytest.raises(InternalError, match="an instant that is REQUESTED cannot become COMPLETED"),
    ):
        commit(transaction, NOTHING, base_schema=None, unique_keys=UniqueKeys.NOWHERE)
    assert len(load_table(storage).timeline.completed_writes) == 1


@every_version
def test_write_cannot_become_inflight_twice(version: int) -> None:
    storage = table_of(version)
    with begin(
        load_table(storage), Action.COMMIT, requested=b"", settings=TransactionSettings(), environment=environment()
    ) as transaction:
        mark_inflight(transaction, NOTHING)
        with pytest.raises(AlreadyExistsError):
            mark_inflight(transaction, NOTHING)


@every_version
def test_write_that_is_completed_stays_as_it_is(version: int) -> None:
    storage = table_of(version)
    with begin(
        load_table(storage), Action.COMMIT, requested=b"", settings=TransactionSettings(), environment=environment()
    ) as transaction:
        mark_inflight(transaction, NOTHING)
        commit(transaction, NOTHING, base_schema=None, unique_keys=UniqueKeys.NOWHERE)
        before = instants_of(storage)

        with pytest.raises(AlreadyExistsError):
            mark_inflight(transaction, NOTHING)
        with pytest.raises(LockLostError, match="nothing of this run is visible"):
            commit(transaction, NOTHING, base_schema=None, unique_keys=UniqueKeys.NOWHERE)

    assert instants_of(storage) == before
    assert len(load_table(storage).timeline.completed_writes) == 2


@every_version
def test_instant_time_cannot_be_requested_twice(version: int) -> None:
    storage = table_of(version)
    table, env = load_table(storage), environment()

    put = storage.put_if_absent

    def put_after_another(path: str, data: bytes) -> None:
        if path.endswith(".commit.requested"):
            put(path, b"of another writer")
        put(path, data)

    storage.put_if_absent = put_after_another  # type: ignore[method-assign]
    with (
        pytest.raises(LockLostError, match="another process took the same instant time") as caught,
        begin(table, Action.COMMIT, requested=b"", settings=TransactionSettings(), environment=env),
    ):
        pass
    assert caught.value.context["table"] == storage.uri


@every_version
def test_conflict_names_the_table_and_both_instants(version: int) -> None:
    storage = table_of(version)
    first = open_table(storage)
    with begin(
        load_table(storage), Action.COMMIT, requested=b"", settings=TransactionSettings(), environment=environment()
    ) as transaction:
        first.upsert(rows((1, "oslo", 2, "b")))
        stats = _stats_of_newest(storage)
        mark_inflight(transaction, NOTHING)
        with pytest.raises(WriteConflictError) as caught:
            commit(transaction, stats, base_schema=None, unique_keys=UniqueKeys.NOWHERE)
    error: HudiError = caught.value
    assert error.context["table"] == storage.uri
    assert error.context["instant"] == transaction.instant_time
    assert error.context["winner"] == load_table(storage).timeline.completed_writes[-1].requested_time
    assert error.context["file_groups"]


def _stats_of_newest(storage: MemoryStorage) -> CommitMetadata:
    table = load_table(storage)
    return load_commit_metadata(storage, table.timeline.completed_writes[-1], table.version)
