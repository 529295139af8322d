from __future__ import annotations

import pytest

from pyhudi.errors import AlreadyExistsError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import FolderListing


def test_modification_times_grow_with_every_change_whatever_the_clock_says() -> None:
    times = iter([100, 100, 50, 1_000])
    storage = MemoryStorage(clock=lambda: next(times))

    seen = []
    for number in range(4):
        storage.put("file", bytes(number))
        info = storage.info("file")
        assert info is not None
        seen.append(info.modified_ms)
    assert seen == [100, 101, 102, 1_000]


def test_equal_content_is_another_version() -> None:
    storage = MemoryStorage()
    storage.put("file", b"same")
    first = storage.read_with_etag("file")[1]
    storage.put("file", b"same")

    assert storage.read_with_etag("file")[1] != first


def test_stored_bytes_do_not_change_with_the_callers_buffer() -> None:
    storage = MemoryStorage()
    buffer = bytearray(b"abc")
    storage.put("file", buffer)  # type: ignore[arg-type]
    with storage.open_output("stream") as output:
        output.write(buffer)
        buffer[:] = b"xyz"

    assert storage.read("file") == storage.read("stream") == b"abc"


def test_stream_is_invisible_until_closed_and_refused_where_a_file_is() -> None:
    storage = MemoryStorage()
    output = storage.open_output("file")
    output.write(b"x")
    assert storage.info("file") is None
    assert storage.list_folder("") == FolderListing((), ())

    storage.put("file", b"theirs")
    with pytest.raises(AlreadyExistsError):
        output.close()
    with pytest.raises(AlreadyExistsError):
        storage.open_output("file")
    assert storage.read("file") == b"theirs"


def test_object_may_have_objects_below_its_name_as_in_an_object_store() -> None:
    storage = MemoryStorage()
    for path in ("a", "a/b", "a/b/c", "a-b"):
        storage.put(path, b"")

    root = storage.list_folder("")
    assert [info.path for info in root.files] == ["a", "a-b"]
    assert root.folders == ("a",)
    storage.delete_folder("a")
    assert [info.path for info in storage.list_recursive("")] == ["a", "a-b"]
