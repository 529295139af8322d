"""What another writer does between the moment at which a write is prepared and the one at which it begins."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pytest
from tests.support.audit import audit
from tests.support.tables import contents, environment, new_table, open_table, rows
from tests.support.two_writers import CLOCK, Write, opened, prepared, upsert, with_other_in_between

import pyhudi
from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.local import LocalEngine
from pyhudi.environment import Environment
from pyhudi.errors import WriteConflictError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.testing.faults import FaultStorage
from pyhudi.transaction.locks.in_process import HeldMutex, InProcessLocks
from pyhudi.write.create import removed_on_failure
from pyhudi.write.run import write

BATCH = {"hoodie.write.batch.id": "7"}


@dataclass
class LateLocks:
    """The table's mutex; another writer comes while the first one waits for it."""

    meanwhile: list[Callable[[], object]] = field(default_factory=list)
    inner: InProcessLocks = field(default_factory=InProcessLocks)

    def acquire(self, storage: Storage, env: Environment, *, wait_ms: int) -> HeldMutex:
        while self.meanwhile:
            self.meanwhile.pop()()
        return self.inner.acquire(storage, env, wait_ms=wait_ms)


def waiting(storage: MemoryStorage, other: Write) -> Environment:
    locks = LateLocks([lambda: other(opened(storage))])
    return replace(environment(CLOCK), locks=locks)


def widened(*values: tuple[int, str, int, str]) -> pa.Table:
    return rows(*values).append_column("extra", pa.array([1] * len(values)))


def test_a_batch_that_came_while_we_waited_to_begin_is_written_once() -> None:
    storage = prepared()

    def batch(table: pyhudi.HudiTable) -> object:
        return table.bulk_insert(rows((7, "bern", 1, "b")), hudi_options=BATCH)

    batch(open_table(storage, env=waiting(storage, batch)))

    assert open_table(storage).scan().to_arrow().num_rows == 4
    audit(storage)


def test_columns_that_came_while_we_waited_to_begin_do_not_get_lost() -> None:
    storage = prepared()
    env = waiting(storage, lambda table: table.upsert(widened((3, "rome", 9, "w"))))

    with pytest.raises(WriteConflictError, match="schema"):
        upsert((1, "oslo", 9, "u"))(open_table(storage, env=env))

    assert "extra" in open_table(storage).scan().to_arrow().column_names


def test_a_write_that_lost_against_new_columns_is_made_with_them_when_it_is_tried_again() -> None:
    storage = prepared()
    other: Write = lambda table: table.upsert(widened((3, "rome", 9, "w")))  # noqa: E731
    store = with_other_in_between(storage, other)

    again = {
        "hoodie.write.num.retries.on.conflict.failures": "1",
        "hoodie.write.set.null.for.missing.columns": "true",
    }
    upsert((1, "oslo", 9, "u"), **again)(opened(store))

    table = open_table(storage).scan().to_arrow()
    assert "extra" in table.column_names
    assert (1, "oslo", 9, "u") in contents(storage)


def test_dropped_partition_takes_rows_committed_while_we_waited_to_begin() -> None:
    storage = prepared()
    env = waiting(storage, lambda table: table.bulk_insert(rows((8, "oslo", 1, "n"))))

    open_table(storage, env=env).delete_partition("city=oslo")

    assert contents(storage) == {(3, "rome", 1, "a")}


def test_bulk_insert_overwrite_replaces_rows_committed_while_it_waited_to_begin() -> None:
    storage = prepared()
    options = {"hoodie.datasource.write.operation": "bulk_insert"}

    write(
        rows((9, "wien", 1, "o")),
        storage,
        config=WriteConfig.from_options(options),
        options=options,
        engine=LocalEngine(parallelism=1),
        environment=waiting(storage, lambda table: table.bulk_insert(rows((8, "oslo", 1, "n")))),
        overwrite=True,
    )

    assert contents(storage) == {(9, "wien", 1, "o")}


def fail_first_write(storage: Storage, config: WriteConfig, env: Environment) -> None:
    """The end of a call that created the table and whose first write fails."""
    with suppress(KeyError), removed_on_failure(storage, config, env, created=True):
        raise KeyError


@pytest.mark.parametrize("is_completed", [False, True])
def test_new_table_with_another_writer_stays_when_our_first_write_fails(is_completed: bool) -> None:
    storage = MemoryStorage()
    new_table(storage)
    config = WriteConfig.from_options({"hoodie.table.name": "t"})

    def first_write_fails() -> None:
        fail_first_write(storage, config, environment(CLOCK))

    other = open_table(storage, env=environment(CLOCK))
    if is_completed:
        other.insert(rows((1, "oslo", 1, "a")))
        first_write_fails()
    else:
        done: list[bool] = []

        def hook(operation: str, path: str) -> None:
            if operation == "put_if_absent" and path.endswith(".inflight") and not done:
                done.append(True)
                first_write_fails()

        open_table(FaultStorage(storage, before=hook), env=environment(CLOCK)).insert(rows((1, "oslo", 1, "a")))

    assert contents(storage) == {(1, "oslo", 1, "a")}


def test_new_table_written_while_we_waited_to_remove_it_stays() -> None:
    storage = MemoryStorage()
    new_table(storage)
    config = WriteConfig.from_options({"hoodie.table.name": "t"})

    fail_first_write(storage, config, waiting(storage, lambda table: table.insert(rows((1, "oslo", 1, "a")))))

    assert contents(storage) == {(1, "oslo", 1, "a")}
