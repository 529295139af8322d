"""What every store promises, on every store that this machine can run; S3 is a real server."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.errors import (
    AlreadyExistsError,
    NotFoundError,
    PreconditionFailedError,
    UnsafePathError,
    UnsupportedFeatureError,
)
from pyhudi.storage.hdfs import HdfsStorage
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import FolderListing, Storage

UNSAFE_PATHS = (
    "/absolute",
    "..",
    "../outside",
    "a/../../outside",
    "a/./b",
    ".",
    "a//b",
    "a/",
    "a\x00b",
    "a\nb",
    "a\\..\\b",
    "\\\\host\\share",
    "a\ud800b",
)

# What Hudi makes of partition values, with and without encoding, and what object stores escape in their requests.
AWKWARD_NAMES = (
    "city=São Paulo/f.parquet",
    "a%2Fb/f.parquet",
    "a%252Fb/f",
    "date=2024-01-01 00:00:00/f",
    "q?x=1&y=2#frag/f",
    "plus+tilde~star*'quote\"/f",
    "[brackets]{braces}|^`<>/f",
    "日本/ファイル",
    ".hoodie/timeline/20250101000000000.commit.requested",
    ".abc_20250101000000000.log.1_0-1-0",
)


def test_read_of_nothing_raises_not_found_with_the_full_path(storage: Storage) -> None:
    for read in (storage.read, storage.open_input, storage.read_with_etag):
        with pytest.raises(NotFoundError) as caught:
            read("no/such")
        assert caught.value.context["path"] == f"{storage.uri}/no/such"
    assert storage.info("no/such") is None
    assert storage.list_folder("no") == FolderListing((), ())
    assert storage.list_recursive("") == ()


def test_folder_is_nothing_to_a_reader_of_objects(storage: Storage) -> None:
    storage.put("folder/file", b"x")

    assert storage.info("folder") is None
    for read in (storage.read, storage.open_input):
        with pytest.raises(NotFoundError):
            read("folder")
    storage.delete("folder")
    assert storage.read("folder/file") == b"x"


def test_file_has_nothing_below_it(storage: Storage) -> None:
    storage.put("file", b"x")

    assert storage.info("file/below") is None
    assert storage.list_folder("file") == FolderListing((), ())
    assert storage.list_recursive("file") == ()
    with pytest.raises(NotFoundError):
        storage.read("file/below")
    storage.delete("file/below")
    storage.delete_folder("file/below")
    assert storage.read("file") == b"x"


@pytest.mark.parametrize("durable", [True, False])
@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 4096], ids=["empty", "byte", "megabyte"])
def test_put_object_reads_back_and_can_be_replaced(storage: Storage, data: bytes, durable: bool) -> None:
    storage.put("a/b/c", b"before", durable=durable)
    storage.put("a/b/c", data, durable=durable)

    assert storage.read("a/b/c") == data
    found = storage.info("a/b/c")
    assert found is not None
    assert (found.path, found.name, found.size) == ("a/b/c", "c", len(data))
    assert abs(found.modified_ms - time.time() * 1000) < 60_000


@pytest.mark.parametrize(
    ("offset", "length"),
    [(0, 4), (3, 2), (3, None), (0, 100), (9, 100), (10, None), (10, 1), (50, 5), (50, None), (4, 0), (0, 0)],
)
def test_ranged_read_gives_what_slicing_gives(storage: Storage, offset: int, length: int | None) -> None:
    data = b"0123456789"
    storage.put("digits", data)
    storage.put("empty", b"")

    end = None if length is None else offset + length
    assert storage.read("digits", offset=offset, length=length) == data[offset:end]
    assert storage.read("empty", offset=offset, length=length) == b""
    with pytest.raises(NotFoundError):
        storage.read("missing", offset=offset, length=length)


@pytest.mark.parametrize("path", AWKWARD_NAMES)
def test_awkward_name_is_kept_to_the_letter(storage: Storage, path: str) -> None:
    folder, _, name = path.rpartition("/")
    if isinstance(storage, HdfsStorage) and ":" in path:
        for call in (storage.read, storage.delete, lambda path: storage.put(path, b"x")):
            with pytest.raises(UnsupportedFeatureError, match="colon"):
                call(path)
        return
    storage.put(path, b"x")

    assert storage.read(path) == b"x"
    assert [info.path for info in storage.list_recursive("")] == [path]
    assert [info.name for info in storage.list_folder(folder).files] == [name]
    with storage.open_input(path) as source:
        assert source.read() == b"x"
    storage.delete(path)
    assert storage.list_recursive("") == ()


def test_put_if_absent_creates_once_and_keeps_the_first_content(storage: Storage) -> None:
    storage.put_if_absent("t/1.commit", b"")
    with pytest.raises(AlreadyExistsError) as caught:
        storage.put_if_absent("t/1.commit", b"")
    assert caught.value.context["path"] == f"{storage.uri}/t/1.commit"
    with pytest.raises(AlreadyExistsError):
        storage.put_if_absent("t/1.commit", b"second")
    assert storage.read("t/1.commit") == b""

    storage.delete("t/1.commit")
    storage.put_if_absent("t/1.commit", b"third")
    assert storage.read("t/1.commit") == b"third"


@pytest.mark.parametrize("size", [0, 100_000])
def test_sixteen_threads_race_to_create_and_exactly_one_wins(storage: Storage, size: int) -> None:
    contents = [bytes([number]) * size for number in range(16)]
    start = threading.Barrier(16)

    def create(number: int) -> bool:
        start.wait(timeout=30)
        try:
            storage.put_if_absent("race/object", contents[number])
        except AlreadyExistsError:
            return False
        return True

    with ThreadPoolExecutor(16) as threads:
        won = list(threads.map(create, range(16)))

    assert won.count(True) == 1
    assert storage.read("race/object") == contents[won.index(True)]
    assert [info.name for info in storage.list_folder("race").files] == ["object"]


@pytest.mark.parametrize("write", ["put", "put_if_absent"])
def test_reader_sees_whole_objects_only(storage: Storage, write: str) -> None:
    whole = {b"a" * 300_000, b"b" * 300_000}
    seen: set[bytes] = set()
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            try:
                seen.add(storage.read("object"))
            except NotFoundError:
                continue

    with ThreadPoolExecutor(1) as watcher:
        watching = watcher.submit(watch)
        for _ in range(5):
            for data in whole:
                if write == "put":
                    storage.put("object", data)
                else:
                    storage.put_if_absent("object", data)
                    storage.delete("object")
        done.set()
        watching.result()

    assert seen <= whole


def test_put_if_match_replaces_the_known_version_only(storage: Storage) -> None:
    storage.put_if_absent("lease", b"one")
    data, first = storage.read_with_etag("lease")
    assert data == b"one"

    second = storage.put_if_match("lease", b"two", etag=first)
    with pytest.raises(PreconditionFailedError) as caught:
        storage.put_if_match("lease", b"three", etag=first)
    assert caught.value.context["path"] == f"{storage.uri}/lease"
    assert storage.read_with_etag("lease") == (b"two", second)

    third = storage.put_if_match("lease", b"three", etag=second)
    assert storage.read("lease") == b"three"
    storage.delete("lease")
    with pytest.raises(PreconditionFailedError):
        storage.put_if_match("lease", b"four", etag=third)
    assert storage.info("lease") is None


def test_threads_that_count_by_put_if_match_lose_no_count(storage: Storage) -> None:
    storage.put("count", b"0")

    def add_three(_: int) -> None:
        for _ in range(3):
            while True:
                data, tag = storage.read_with_etag("count")
                try:
                    storage.put_if_match("count", str(int(data) + 1).encode(), etag=tag)
                except PreconditionFailedError:
                    continue
                break

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add_three, range(4)))

    assert storage.read("count") == b"12"


def test_listings_show_what_was_put_sorted_and_relative_to_the_root(storage: Storage) -> None:
    paths = ["a/x", "a-b/x", "a", "ab/c/d", "ab/c/e", "z", "Z", "ab/b"]
    # On a disk a name is a file or a folder.
    paths.remove("a")
    for path in paths:
        storage.put(path, path.encode())

    root = storage.list_folder("")
    assert [info.path for info in root.files] == ["Z", "z"]
    assert root.folders == ("a", "a-b", "ab")
    assert storage.list_names("") == ("Z", "z")
    assert storage.list_names("ab") == ("b",)
    assert storage.list_names("no") == ()
    below = storage.list_folder("ab")
    assert [(info.path, info.size) for info in below.files] == [("ab/b", 4)]
    assert below.folders == ("ab/c",)
    assert [info.path for info in storage.list_recursive("")] == sorted(paths)
    assert [info.path for info in storage.list_recursive("ab")] == ["ab/b", "ab/c/d", "ab/c/e"]
    assert [info.path for info in storage.list_recursive("a")] == ["a/x"]


def test_only_a_file_of_this_moment_on_a_disk_may_not_be_whole(storage: Storage) -> None:
    storage.put("f", b"1")

    assert storage.wait_for_writer("f") is isinstance(storage, (LocalStorage, HdfsStorage))
    assert not storage.wait_for_writer("no")


def test_listing_of_more_than_one_page_is_complete(storage: Storage) -> None:
    names = [f"many/{number:04}" for number in range(1100)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: storage.put(name, b"", durable=False), names))

    assert [info.path for info in storage.list_folder("many").files] == names
    assert [f"many/{name}" for name in storage.list_names("many")] == names
    assert [info.path for info in storage.list_recursive("")] == names
    storage.delete_folder("many")
    assert storage.list_recursive("") == ()


def test_deleting_twice_is_the_same_as_once(storage: Storage) -> None:
    storage.put("folder/a", b"")
    storage.put("folder/sub/b", b"")
    storage.put("folder2/c", b"")

    for _ in range(2):
        storage.delete("folder/a")
        assert [info.path for info in storage.list_recursive("")] == ["folder/sub/b", "folder2/c"]
    for _ in range(2):
        storage.delete_folder("folder")
        assert [info.path for info in storage.list_recursive("")] == ["folder2/c"]
    assert storage.list_folder("").folders == ("folder2",)
    storage.put("folder/a", b"again")
    assert storage.read("folder/a") == b"again"
    storage.delete_folder("")
    assert storage.list_recursive("") == ()


def test_folder_deleted_by_several_at_once_is_gone(storage: Storage) -> None:
    for number in range(40):
        storage.put(f"folder/{number % 5}/{number}", b"", durable=False)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: storage.delete_folder("folder"), range(4)))

    assert storage.list_recursive("folder") == ()


@pytest.mark.parametrize("path", [*UNSAFE_PATHS, ""])
def test_unsafe_path_is_refused_before_anything_happens(storage: Storage, path: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: storage.read(path),
        lambda: storage.open_input(path),
        lambda: storage.open_output(path),
        lambda: storage.put(path, b""),
        lambda: storage.put_if_absent(path, b""),
        lambda: storage.put_if_match(path, b"", etag="x"),
        lambda: storage.read_with_etag(path),
        lambda: storage.info(path),
        lambda: storage.delete(path),
    ]
    if path:
        calls += [
            lambda: storage.list_folder(path),
            lambda: storage.list_names(path),
            lambda: storage.list_recursive(path),
            lambda: storage.delete_folder(path),
        ]
    for call in calls:
        with pytest.raises(UnsafePathError):
            call()
    assert storage.list_recursive("") == ()


def test_streamed_64_megabytes_read_back_in_any_order(storage: Storage) -> None:
    block = bytes(range(256)) * 4096
    with storage.open_output("big/file", durable=False) as output:
        for number in range(64):
            output.write(bytes([number]) + block[1:])
        assert output.tell() == 64 << 20

    found = storage.info("big/file")
    assert found is not None
    assert found.size == 64 << 20
    with storage.open_input("big/file") as source:
        assert source.seek(-1, io.SEEK_END) == (64 << 20) - 1
        assert source.read() == b"\xff"
        for number in (63, 0, 31):
            source.seek(number << 20)
            assert source.read(3) == bytes([number, 1, 2])
            assert source.tell() == (number << 20) + 3
        source.seek(5 << 20)
        assert source.read(3 << 20) == b"".join(bytes([number]) + block[1:] for number in (5, 6, 7))
        source.seek(64 << 20)
        assert source.read(1) == b""


@pytest.mark.parametrize("count", [0, 1, 3])
def test_small_stream_holds_exactly_what_was_written(storage: Storage, count: int) -> None:
    with storage.open_output("a/small") as output:
        for _ in range(count):
            assert output.write(memoryview(bytearray(b"abc"))) == 3

    assert storage.read("a/small") == b"abc" * count
    with storage.open_input("a/small") as source:
        assert source.read() == b"abc" * count


def test_stream_left_by_an_error_leaves_no_object(storage: Storage) -> None:
    with pytest.raises(KeyError), storage.open_output("a/file") as output:  # noqa: PT012
        output.write(b"x" * (12 << 20))
        raise KeyError

    assert output.closed
    assert storage.info("a/file") is None
    assert storage.list_recursive("") == ()
    with storage.open_output("a/file") as again:
        again.write(b"y")
    assert storage.read("a/file") == b"y"


def test_stream_that_is_closed_takes_no_more(storage: Storage) -> None:
    output = storage.open_output("a/file")
    output.write(b"x")
    output.close()
    output.close()

    with pytest.raises(ValueError, match="closed"):
        output.write(b"y")
    assert storage.read("a/file") == b"x"


def test_parquet_and_ipc_round_trip_through_streams(storage: Storage) -> None:
    table = pa.table({"key": [f"k{number}" for number in range(50_000)], "value": range(50_000)})

    with storage.open_output("p/file.parquet") as output, pq.ParquetWriter(output, table.schema) as writer:
        for start in range(0, 50_000, 10_000):
            writer.write_table(table.slice(start, 10_000))
    with storage.open_output("x/file.arrow", durable=False) as output, pa.ipc.new_file(output, table.schema) as ipc:
        ipc.write_table(table, max_chunksize=7_000)

    with storage.open_input("p/file.parquet") as source:
        file = pq.ParquetFile(source)
        assert file.metadata.num_row_groups == 5
        assert file.read_row_group(3, columns=["value"]).equals(table.slice(30_000, 10_000).select(["value"]))
    with storage.open_input("p/file.parquet") as source:
        assert pq.read_table(source).equals(table)
    with storage.open_input("x/file.arrow") as source:
        assert pa.ipc.open_file(source).read_all().equals(table)


def test_spec_opens_the_same_store_again(storage: Storage) -> None:
    storage.put("a", b"x")

    again = open_spec(storage.spec)

    assert again.uri == storage.uri
    assert again.read("a") == b"x"
