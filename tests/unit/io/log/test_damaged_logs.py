"""Damage of a log: an error in what a completed write put there, passed over in what a dead writer left."""

from __future__ import annotations

import itertools

import pytest
from tests.support.table_builder import every_version
from tests.support.tables import MOR, contents, new_table, open_table, rows

from pyhudi.errors import CorruptDataError, DamagedFileWarning, HudiError
from pyhudi.io.log.scan import scan_blocks
from pyhudi.storage.memory import MemoryStorage

SKIP = {"hoodie.pyhudi.read.skip.damaged.files": "true"}
OLD, NEW = (1, "oslo", 1, "old"), (1, "oslo", 2, "new")


def with_log(version: int) -> tuple[MemoryStorage, str]:
    storage = MemoryStorage()
    new_table(storage, version=version, **MOR).insert(rows(OLD))
    open_table(storage).upsert(rows(NEW))
    (one,) = open_table(storage).inspect.files().to_pylist()
    return storage, one["logs"][0]


def flip(storage: MemoryStorage, path: str, at: int) -> None:
    data = bytearray(storage.read(path))
    data[at] ^= 0x40
    storage.put(path, bytes(data))


@every_version
def test_a_flipped_bit_in_the_framing_of_a_committed_log_gives_no_older_rows(version: int) -> None:
    storage, log = with_log(version)
    whole = storage.read(log)
    answers: dict[int, object] = {}
    for at in itertools.chain(range(60), range(len(whole) - 12, len(whole))):
        flip(storage, log, at)
        try:
            answers[at] = contents(storage)
        except HudiError as error:
            answers[at] = error.context["path"]
        storage.put(log, whole)

    errors = {at for at, answer in answers.items() if answer == log}
    assert {at for at in answers if answers[at] != {NEW}} == errors
    # But for the length of the footer, which nothing reads.
    assert len(errors) >= len(answers) - 4


@every_version
def test_a_compaction_of_a_damaged_log_is_refused_and_changes_nothing(version: int) -> None:
    storage, log = with_log(version)
    whole = storage.read(log)
    flip(storage, log, 0)

    with pytest.raises(CorruptDataError, match="damaged"):
        open_table(storage).services.compact()

    storage.put(log, whole)
    assert contents(storage) == {NEW}
    open_table(storage).services.compact()
    assert contents(storage) == {NEW}


@every_version
def test_an_option_reads_past_a_damaged_log_and_says_so(version: int) -> None:
    storage, log = with_log(version)
    flip(storage, log, 0)

    with pytest.warns(DamagedFileWarning, match=log):
        found = open_table(storage, **SKIP).scan(["note"]).to_arrow()

    assert found.to_pylist() == [{"note": "old"}]


def test_damage_by_a_dead_writer_after_committed_version_6_blocks_is_skipped() -> None:
    storage, log = with_log(6)
    whole = storage.read(log)
    storage.put(log, whole + whole[: len(whole) // 2])

    assert contents(storage) == {NEW}


def test_a_torn_log_of_a_dead_writer_of_version_6_is_passed_over() -> None:
    storage, log = with_log(6)
    whole = storage.read(log)
    storage.put(log.replace(".log.1_", ".log.2_"), whole[: len(whole) // 2])

    assert contents(storage) == {NEW}


def test_a_log_of_an_attempt_that_outlived_its_commit_does_not_count_in_version_6() -> None:
    storage, log = with_log(6)
    data = storage.read(log).replace(b"new", b"bad")
    folder, _, name = log.rpartition("/")
    storage.put(f"{folder}/{name.replace('.log.1_', '.log.2_')}", data)

    assert contents(storage) == {NEW}


@pytest.mark.parametrize("version", [8, 9])
def test_a_log_of_an_attempt_that_outlived_its_commit_does_not_count(version: int) -> None:
    storage, log = with_log(version)
    data = storage.read(log).replace(b"new", b"bad")
    for other in (log.replace(".log.1_", ".log.2_"), log + "9"):
        storage.put(other, data)

    assert contents(storage) == {NEW}


ARCHIVING = {
    **MOR,
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.commits.retained": "1",
}


def with_archived_log() -> tuple[MemoryStorage, str]:
    """A table of version 6 in which only the archive knows the write of a log."""
    storage, log = with_log(6)
    for number in range(8):
        open_table(storage, **ARCHIVING).upsert(rows((2, "rome", number, "other")))
    [block] = scan_blocks(storage, log)
    assert open_table(storage).handle.state.timeline.starts_after(block.instant_time)
    return storage, log


def test_a_log_that_a_dead_writer_left_half_written_beside_archived_ones_is_passed_over() -> None:
    storage, log = with_archived_log()
    [block] = scan_blocks(storage, log)
    half = storage.read(log).replace(block.instant_time.encode(), b"20990101000000000")
    storage.put(log.replace(".log.1_", ".log.2_"), half[: len(half) // 2])

    assert NEW in contents(storage)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_an_archived_log_that_is_cut_off_is_an_error(share: float) -> None:
    storage, log = with_archived_log()
    whole = storage.read(log)
    storage.put(log, whole[: int(len(whole) * share)])

    with pytest.raises(CorruptDataError, match="damaged"):
        contents(storage)
