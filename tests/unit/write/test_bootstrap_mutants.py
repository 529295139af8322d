"""The rules of a bootstrap, each broken: the crash test and the checks of its source notice every one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.bootstraps import bootstrap, copy_city_b, count_rows
from tests.support.crashes import opened
from tests.support.mutants.tools import nothing, patched
from tests.support.sources import SOURCE_SCHEMA, parquet_source

from pyhudi.errors import HudiError, PermissionDeniedError, WriteConflictError
from pyhudi.format.bootstrap_index import PARTITIONS_PATH
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.bootstrap import check_bootstrapped
from pyhudi.table.state import table_exists
from pyhudi.tasks import bootstrap as tasks_of_bootstrap
from pyhudi.testing.faults import FaultStorage, SimulatedCrash, at_effect
from pyhudi.transaction import transaction as commits
from pyhudi.write import run as write_loop
from pyhudi.write.bootstrap import progress
from pyhudi.write.bootstrap import run as protocol


def dies_anywhere(source: Path) -> None:
    """After a crash at any effect there is no row or all of them, and the next call makes the table."""
    whole = FaultStorage(MemoryStorage())
    bootstrap(source, whole)
    assert count_rows(whole) == 5
    for number in range(1, len(whole.effects) + 1):
        inner = MemoryStorage()
        with suppress(SimulatedCrash):
            bootstrap(source, FaultStorage(inner, before=at_effect(number, SimulatedCrash())))
        if table_exists(inner) and (rows := count_rows(inner)):
            assert rows == 5
        else:
            bootstrap(source, inner, later=True)
            assert count_rows(inner) == 5


def goes_on(source: Path) -> None:
    """A run that stood still commits nothing once another one has gone on, and of two contents the newer one counts."""
    inner = MemoryStorage()

    def other(_: str, path: str) -> None:
        if path == PARTITIONS_PATH:
            with suppress(SimulatedCrash):
                dies = FaultStorage(inner, before=at_effect(5, SimulatedCrash()))
                bootstrap(source, dies, later=True)

    with suppress(HudiError):
        bootstrap(source, FaultStorage(inner, before=once(other)))
        raise AssertionError("the run that stood still has made the table")
    file = source / "city=a" / "part-0.parquet"
    pq.write_table(pq.ParquetFile(file).read().slice(0, 1), file)
    bootstrap(source, inner, later=True)
    assert count_rows(inner) == 1


def once(hook: Callable[[str, str], None]) -> Callable[[str, str], None]:
    """The hook, until it has ended an effect."""
    done: list[str] = []

    def before(name: str, path: str) -> None:
        if path == PARTITIONS_PATH and not done:
            done.append(path)
            hook(name, path)

    return before


def changes_meanwhile(source: Path) -> None:
    """A file that comes into the source is noticed."""

    class Meddling(FaultStorage):
        def open_output(self, path: str, *, durable: bool = True) -> IO[bytes]:
            if path == PARTITIONS_PATH:
                pq.write_table(pa.table({"id": ["late"]}), source / "city=a" / "late.parquet")
            return super().open_output(path, durable=durable)

    with pytest.raises(HudiError, match="source was changed"):
        bootstrap(source, Meddling(MemoryStorage()))


def loses_a_batch(source: Path) -> None:
    """A task that leaves rows out is noticed."""
    keys = tasks_of_bootstrap._record_keys

    def fewer(*call: Any) -> Iterator[pa.Array]:
        return (some[1:] for some in keys(*call))

    with patched((tasks_of_bootstrap, keys, fewer)), pytest.raises(HudiError, match="another number of rows"):
        bootstrap(source, MemoryStorage())


@contextmanager
def index_after_the_commit() -> Iterator[None]:
    """The commit is complete before the index is there."""
    put, commit = protocol._put_index, protocol.committed
    calls: list[Any] = []

    def kept(*call: Any) -> None:
        calls.append(call)

    def committed(*call: Any) -> Any:
        result = commit(*call)
        put(*calls.pop())
        return result

    with patched((protocol, put, kept), (protocol, commit, committed)):
        yield


def writer_comes_first(source: Path) -> None:
    """A record that is written while the table is made is not there twice."""
    inner = MemoryStorage()
    rows = pa.Table.from_pylist([{"id": "a00", "city": "a"}], pa.schema([*SOURCE_SCHEMA, ("city", pa.string())]))

    def meanwhile(_: str, path: str) -> None:
        if path == PARTITIONS_PATH:
            with suppress(WriteConflictError):
                opened(inner).upsert(rows)

    bootstrap(source, FaultStorage(inner, before=meanwhile))
    assert count_rows(inner) == 5


def fails_between_its_commits(source: Path) -> None:
    """Of a bootstrap of both modes no part stays."""
    parquet_source(source, cities="b", files=1)
    inner = MemoryStorage()

    def fail(_: str, path: str) -> None:
        if "/00000000000001_" in path:
            raise PermissionDeniedError("no more puts", path=path)

    with pytest.raises(PermissionDeniedError):
        bootstrap(source, FaultStorage(inner, before=fail), mode=copy_city_b)
    assert not table_exists(inner)


def always(*_: object) -> bool:
    """In the place of a check."""
    return True


CHECKS = {
    "writer": writer_comes_first,
    "between": fails_between_its_commits,
    "crash": dies_anywhere,
    "goes on": goes_on,
    "change": changes_meanwhile,
    "batch": loses_a_batch,
}
MUTANTS: dict[str, tuple[Callable[[], AbstractContextManager[None]], str]] = {
    "the index is put after the commit": (index_after_the_commit, "crash"),
    "there is no index": (lambda: patched((protocol, protocol._put_index, nothing)), "crash"),
    "what died is left": (lambda: patched((protocol, protocol._remove_dead_bootstrap, nothing)), "crash"),
    "files that no note names stay": (lambda: patched((progress, progress._delete, nothing)), "crash"),
    "a note counts for a changed source": (lambda: patched((progress, progress._counts, always)), "goes on"),
    "a run that stood still commits": (lambda: patched((commits, commits._check_run, nothing)), "goes on"),
    "the source is not compared": (lambda: patched((protocol, protocol.check_unchanged, nothing)), "change"),
    "writers do not wait for the bootstrap": (lambda: patched((write_loop, check_bootstrapped, nothing)), "writer"),
    "the first of two commits stays": (lambda: patched((protocol, protocol._undo_copies, nothing)), "between"),
    "rows are not counted": (lambda: patched((protocol, protocol._check_rows, nothing)), "batch"),
}


@pytest.mark.parametrize("kind", CHECKS)
def test_bootstrap_keeps_its_rules(tmp_path: Path, kind: str) -> None:
    CHECKS[kind](parquet_source(tmp_path / "source", cities="a", files=1))


@pytest.mark.parametrize("name", MUTANTS)
def test_broken_rule_of_a_bootstrap_is_noticed(tmp_path: Path, name: str) -> None:
    broken, kind = MUTANTS[name]
    with broken(), pytest.raises((AssertionError, HudiError, pytest.fail.Exception)):
        CHECKS[kind](parquet_source(tmp_path / "source", cities="a", files=1))
