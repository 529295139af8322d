"""Which files of a folder are new."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pyhudi.errors import ConfigError
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.sources.folder import LATE_MS, NAMES_MAX, ReadFiles, new_files

BEGIN = Checkpoint()


@dataclass(frozen=True)
class Listing:
    """A store that can be listed."""

    files: tuple[FileInfo, ...]
    uri: str

    def list_recursive(self, _: str) -> tuple[FileInfo, ...]:
        return self.files


def storage_of(*files: tuple[str, int] | tuple[str, int, int], uri: str = "memory://landing") -> Storage:
    """A folder with files of these names, times, and sizes."""
    found = [FileInfo(file[0], file[2] if len(file) > 2 else 10, file[1]) for file in files]
    return cast("Storage", Listing(tuple(sorted(found, key=lambda info: info.path)), uri))


def names(files: list[FileInfo]) -> list[str]:
    return [file.path for file in files]


def read_all(storage: Storage, limit: int | None = None) -> tuple[list[str], Checkpoint]:
    """All files in the order in which batches read them, and the last checkpoint."""
    order, checkpoint = [], BEGIN
    while files := new_files(storage, ReadFiles.of(checkpoint), limit):
        order += names(files)
        checkpoint = ReadFiles.of(checkpoint).after(storage, files)
    return order, checkpoint


def test_files_are_read_oldest_first_and_by_name():
    storage = storage_of(("b", 1), ("a", 2), ("c", 1), ("d/x", 1))
    assert read_all(storage)[0] == ["b", "c", "d/x", "a"]


def test_hidden_and_empty_files_are_left_out():
    storage = storage_of((".a", 1), ("_b", 1), ("_tmp/c", 1), ("d/.e/f", 1), ("g", 1, 0), ("h", 1))
    assert read_all(storage)[0] == ["h"]


def test_second_file_of_the_newest_millisecond_is_read_once():
    _, checkpoint = read_all(storage_of(("a", 5)))
    later = storage_of(("a", 5), ("b", 5))
    files = new_files(later, ReadFiles.of(checkpoint), None)
    assert names(files) == ["b"]
    assert new_files(later, ReadFiles.of(ReadFiles.of(checkpoint).after(later, files)), None) == []


def test_file_that_appears_with_an_earlier_time_is_read():
    _, checkpoint = read_all(storage_of(("a", 5 * LATE_MS)))
    later = storage_of(("a", 5 * LATE_MS), ("moved", 4 * LATE_MS + 1), ("too late", 3 * LATE_MS))
    assert names(new_files(later, ReadFiles.of(checkpoint), None)) == ["moved"]


def test_file_that_is_written_again_is_read_again():
    _, checkpoint = read_all(storage_of(("a", 5)))
    assert names(new_files(storage_of(("a", 6)), ReadFiles.of(checkpoint), None)) == ["a"]


def test_checkpoint_is_the_time_of_the_newest_file_as_jvm_hudi_has_it():
    _, checkpoint = read_all(storage_of(("a", 1_700_000_000_001), ("b", 1_700_000_000_002)))
    assert checkpoint.text == "1700000000002"


def test_checkpoint_of_jvm_hudi_ends_with_its_millisecond():
    storage = storage_of(("a", 4), ("b", 5), ("c", 6))
    assert names(new_files(storage, ReadFiles.of(Checkpoint(text="5")), None)) == ["c"]


def test_smallest_number_as_checkpoint_reads_everything():
    """JVM Hudi of older releases wrote it where it had read nothing."""
    assert names(new_files(storage_of(("a", 4)), ReadFiles.of(Checkpoint(text=str(-(2**63)))), None)) == ["a"]


def test_state_of_another_checkpoint_does_not_count():
    """A tool that copies metadata from commit to commit may leave the state behind."""
    state = json.dumps({"newest": 9, "since": 0, "files": []})
    assert names(new_files(storage_of(("a", 4), ("b", 6)), ReadFiles.of(Checkpoint(text="5", state=state)), None)) == [
        "b"
    ]


def test_checkpoint_of_another_folder_is_refused():
    """Its files may be older than those that were read, and nobody has read them."""
    _, checkpoint = read_all(storage_of(("a", 5), ("b", 7 * LATE_MS)))
    other = storage_of(("a", 6), ("c", 8 * LATE_MS), uri="memory://other")
    with pytest.raises(ConfigError, match="another folder"):
        new_files(other, ReadFiles.of(checkpoint), None)
    assert names(new_files(other, ReadFiles.of(Checkpoint(text="6")), None)) == ["c"]
    assert read_all(other)[0] == ["a", "c"]


def test_folder_that_has_another_name_now_keeps_its_checkpoint():
    _, checkpoint = read_all(storage_of(("a", 5), ("b", 7 * LATE_MS)))
    moved = storage_of(("b", 7 * LATE_MS), ("c", 8 * LATE_MS), uri="s3a://landing")
    assert names(new_files(moved, ReadFiles.of(checkpoint), None)) == ["c"]
    assert new_files(storage_of(uri="memory://empty"), ReadFiles.of(checkpoint), None) == []


def test_file_above_the_limit_is_read_alone():
    storage = storage_of(("a", 1, 100), ("b", 2, 3), ("c", 3, 3), ("d", 4, 100))
    checkpoint = BEGIN
    batches: list[list[str]] = []
    while files := new_files(storage, ReadFiles.of(checkpoint), 10):
        batches.append(names(files))
        checkpoint = ReadFiles.of(checkpoint).after(storage, files)
    assert batches == [["a"], ["b", "c"], ["d"]]


def test_number_of_names_in_a_checkpoint_is_bounded():
    storage = storage_of(*((f"f{number}", number) for number in range(3 * NAMES_MAX)))
    order, checkpoint = read_all(storage)
    assert len(order) == 3 * NAMES_MAX
    assert len(json.loads(checkpoint.state or "")["files"]) <= NAMES_MAX
    assert new_files(storage, ReadFiles.of(checkpoint), None) == []


def test_many_files_of_one_millisecond_are_all_remembered():
    storage = storage_of(*((f"f{number}", 7) for number in range(3 * NAMES_MAX)))
    order, checkpoint = read_all(storage, limit=10_000)
    assert len(order) == len(set(order)) == 3 * NAMES_MAX
    assert new_files(storage, ReadFiles.of(checkpoint), None) == []


@hypothesis_settings(deadline=None)
@given(
    times=st.lists(st.integers(0, 6), min_size=1, max_size=12),
    hidden=st.lists(st.integers(0, 11), max_size=6),
    limit=st.one_of(st.none(), st.integers(1, 40)),
)
def test_files_that_appear_in_any_order_are_read_exactly_once(times: list[int], hidden: list[int], limit: int | None):
    every = [(f"f{number}", time) for number, time in enumerate(times)]
    first = storage_of(*(file for number, file in enumerate(every) if number not in hidden))
    order, checkpoint = read_all(first, limit)
    whole = storage_of(*every)
    while files := new_files(whole, ReadFiles.of(checkpoint), limit):
        order += names(files)
        checkpoint = ReadFiles.of(checkpoint).after(whole, files)
    assert sorted(order) == sorted(name for name, _ in every)


@pytest.mark.parametrize("text", ["topic,0:5", "", "x"])
def test_checkpoint_of_another_source_is_refused(text: Any):
    with pytest.raises(ConfigError, match="milliseconds"):
        ReadFiles.of(Checkpoint(text=text))
