"""A bootstrap that died or was interrupted: the next call keeps what was finished, and nothing else stays."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.bootstraps import bootstrap, copy_city_b, count_rows
from tests.support.crashes import opened
from tests.support.listings import NotingEngine
from tests.support.sources import parquet_source

from pyhudi.config.options_bootstrap import BootstrapMode
from pyhudi.errors import HudiError, WriteConflictError
from pyhudi.format.bootstrap_index import PARTITIONS_PATH
from pyhudi.format.markers import MARKERS_ROOT
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.lister import list_data_files
from pyhudi.table.state import load_table, table_exists
from pyhudi.testing.faults import FaultStorage, SimulatedCrash, at_effect
from pyhudi.transaction.heartbeat import HEARTBEAT_FOLDER
from pyhudi.transaction.plan_fencing import RUNS_FOLDER
from pyhudi.write.bootstrap.plan import ModeOf

MODES = [*BootstrapMode, copy_city_b]
ONE_FILE_A_TASK = {"hoodie.bootstrap.parallelism": "100"}
FILES = 6
"""Of the source."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return parquet_source(tmp_path / "source", files=FILES // 2)


def data_files(storage: Storage) -> dict[str, bytes]:
    return {info.path: storage.read(info.path) for info in list_data_files(storage) if info.name.endswith(".parquet")}


def noted(storage: Storage) -> list[str]:
    return [info.path for info in storage.list_recursive(MARKERS_ROOT) if "/notes/" in info.path]


def files_written(store: FaultStorage) -> int:
    return sum(each.name == "open_output" and each.path.endswith(".parquet") for each in store.effects)


def die_when(
    source: Path, storage: Storage, is_time: Callable[[str, str], bool], error: BaseException, mode: ModeOf
) -> None:
    died: list[str] = []

    def die(operation: str, path: str) -> None:
        if not died and is_time(operation, path):
            died.append(path)
            raise error

    with suppress(SimulatedCrash, KeyboardInterrupt):
        bootstrap(source, FaultStorage(storage, before=die), mode=mode, options=ONE_FILE_A_TASK)


def is_index(_: str, path: str) -> bool:
    return path == PARTITIONS_PATH


def check_whole(storage: Storage) -> None:
    """All rows once, and no file that no commit names."""
    assert count_rows(storage) == 5 * FILES
    table = load_table(storage)
    named = {
        path
        for instant in table.timeline.completed_writes
        for path in load_commit_metadata(storage, instant, table.version).paths()
    }
    assert data_files(storage).keys() == named
    for folder in (MARKERS_ROOT, HEARTBEAT_FOLDER, RUNS_FOLDER):
        assert not storage.list_recursive(folder), folder
    rows = opened(storage).scan(columns=["_hoodie_commit_seqno"]).to_arrow().column(0).to_pylist()
    assert len({*rows}) == 5 * FILES


@pytest.mark.parametrize("mode", MODES)
def test_bootstrap_that_dies_anywhere_writes_no_finished_file_again(source: Path, mode: ModeOf) -> None:
    whole = FaultStorage(MemoryStorage())
    bootstrap(source, whole, mode=mode, options=ONE_FILE_A_TASK)
    check_whole(whole)
    went_on = 0
    for number in range(1, len(whole.effects) + 1):
        inner = MemoryStorage()
        with suppress(SimulatedCrash):
            dies = FaultStorage(inner, before=at_effect(number, SimulatedCrash()))
            bootstrap(source, dies, mode=mode, options=ONE_FILE_A_TASK)
        if table_exists(inner) and count_rows(inner) == 5 * FILES:
            continue
        left, is_begun = len(noted(inner)), not table_exists(inner) or not load_table(inner).timeline.completed_writes
        second = FaultStorage(inner)
        bootstrap(source, second, later=True, mode=mode, options=ONE_FILE_A_TASK)
        check_whole(inner)
        if is_begun:  # else a part was visible, which is taken back
            assert files_written(second) == FILES - left, whole.effects[number - 1]
            went_on += left > 0
    assert went_on > FILES


@pytest.mark.parametrize("mode", MODES)
def test_interrupted_bootstrap_goes_on_at_once(source: Path, mode: ModeOf) -> None:
    inner = MemoryStorage()
    die_when(source, inner, lambda *_: len(noted(inner)) == 3, KeyboardInterrupt(), mode)
    kept = data_files(inner)
    assert count_rows(inner) == 0
    with pytest.raises(WriteConflictError, match="run the bootstrap again"):
        opened(inner).upsert(opened(inner).scan().to_arrow())

    second, engine = FaultStorage(inner), NotingEngine()
    bootstrap(source, second, mode=mode, options=ONE_FILE_A_TASK, engine=engine)

    check_whole(inner)
    assert len(engine.folders) == 2 + (2 if mode is copy_city_b else 1)  # the source twice; once for each commit
    assert files_written(second) == FILES - 3
    assert sum(data_files(inner).get(path) == data for path, data in kept.items()) == 3


@pytest.mark.parametrize("mode", MODES)
def test_file_of_the_source_that_changed_is_written_again(source: Path, mode: ModeOf) -> None:
    inner = MemoryStorage()
    die_when(source, inner, is_index if mode is not BootstrapMode.FULL_RECORD else is_commit, SimulatedCrash(), mode)
    assert len(noted(inner)) == FILES
    changed = source / "city=b" / "part-0.parquet"
    changed.write_bytes((source / "city=a" / "part-1.parquet").read_bytes() + b"")
    (source / "city=a" / "part-1.parquet").unlink()
    (source / "city=a" / "part-9.parquet").write_bytes(changed.read_bytes())

    second = FaultStorage(inner)
    bootstrap(source, second, later=True, mode=mode, options=ONE_FILE_A_TASK)

    check_whole(inner)
    assert files_written(second) == 2
    keys = opened(inner).scan(columns=["_hoodie_record_key"]).to_arrow().column(0).to_pylist()
    assert sorted(key for key in keys if key.startswith("a1")) == sorted([f"a1{n}" for n in range(5)] * 2)


def is_commit(operation: str, path: str) -> bool:
    return operation == "put_if_absent" and path.endswith(".commit")


@pytest.mark.parametrize("mode", [BootstrapMode.METADATA_ONLY, copy_city_b])
def test_bootstrap_with_other_options_begins_anew(source: Path, mode: ModeOf) -> None:
    inner = MemoryStorage()
    die_when(source, inner, is_index, SimulatedCrash(), mode)

    second = FaultStorage(inner)
    more = {**ONE_FILE_A_TASK, "hoodie.index.bloom.num_entries": "7"}
    bootstrap(source, second, later=True, mode=mode, options=more)

    check_whole(inner)
    assert files_written(second) == FILES


@pytest.mark.parametrize("damage", [b"", b"{", b'{"partitionToWriteStats": {}, "extraMetadata": {"task": "x"}}'])
def test_damaged_note_counts_for_nothing(source: Path, damage: bytes) -> None:
    inner = MemoryStorage()
    die_when(source, inner, is_index, SimulatedCrash(), BootstrapMode.METADATA_ONLY)
    for path in noted(inner)[:2]:
        inner.put(path, damage)

    second = FaultStorage(inner)
    bootstrap(source, second, later=True, options=ONE_FILE_A_TASK)

    check_whole(inner)
    assert files_written(second) == 2


def test_finished_file_that_is_gone_is_written_again(source: Path) -> None:
    inner = MemoryStorage()
    die_when(source, inner, is_index, SimulatedCrash(), BootstrapMode.METADATA_ONLY)
    inner.delete(next(iter(data_files(inner))))

    second = FaultStorage(inner)
    bootstrap(source, second, later=True, options=ONE_FILE_A_TASK)

    check_whole(inner)
    assert files_written(second) == 1


@pytest.mark.parametrize("mode", MODES)
def test_run_that_another_one_has_gone_on_with_commits_nothing(source: Path, mode: ModeOf) -> None:
    """The first run stands still, the second one goes on and dies, the first one wakes up, and a third one ends it."""
    whole = FaultStorage(MemoryStorage())
    bootstrap(source, whole, mode=mode, options=ONE_FILE_A_TASK)
    for number in range(5, len(whole.effects), 4):
        inner, ended = MemoryStorage(), list[str]()

        def other(inner: MemoryStorage = inner) -> None:
            seen = FaultStorage(inner, before=at_effect(9, SimulatedCrash()))
            with suppress(SimulatedCrash, HudiError):
                bootstrap(source, seen, later=True, mode=mode, options=ONE_FILE_A_TASK)

        with suppress(HudiError):
            bootstrap(source, FaultStorage(inner, before=once(number, other)), mode=mode, options=ONE_FILE_A_TASK)
            ended.append("first")
        if not ended:
            bootstrap(source, inner, later=True, mode=mode, options=ONE_FILE_A_TASK)
        check_whole(inner)


def once(number: int, action: Callable[[], None]) -> Callable[[str, str], None]:
    seen: list[Any] = []

    def before(*effect: str) -> None:
        seen.append(effect)
        if len(seen) == number:
            action()

    return before


@pytest.mark.parametrize("number", [1, 4, 7, 10])
def test_two_calls_that_both_go_on_make_one_table(source: Path, number: int) -> None:
    inner, ended = MemoryStorage(), list[str]()
    die_when(source, inner, is_index, SimulatedCrash(), BootstrapMode.METADATA_ONLY)

    def other() -> None:
        with suppress(HudiError):
            bootstrap(source, inner, later=True, options=ONE_FILE_A_TASK)
            ended.append("other")

    with suppress(HudiError):
        bootstrap(source, FaultStorage(inner, before=once(number, other)), later=True, options=ONE_FILE_A_TASK)
        ended.append("mine")

    assert len(ended) == 1
    check_whole(inner)
