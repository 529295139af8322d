"""What only local disk has: fsync, hard links, symlinks, Hadoop's checksum files, full disks."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.errors import (
    AlreadyExistsError,
    HudiError,
    NotFoundError,
    OutOfSpaceError,
    PermissionDeniedError,
    PreconditionFailedError,
    StorageError,
    UnsafePathError,
    UnsupportedFeatureError,
)
from pyhudi.storage import known_folders
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.paths import LOCK_NAME
from pyhudi.storage.protocol import FolderListing

Write = Callable[[LocalStorage, str], None]


def _stream(storage: LocalStorage, path: str) -> None:
    with storage.open_output(path) as output:
        output.write(b"new")


WRITES: dict[str, Write] = {
    "put": lambda storage, path: storage.put(path, b"new"),
    "put_if_absent": lambda storage, path: storage.put_if_absent(path, b"new"),
    "open_output": _stream,
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def storage(root: Path) -> LocalStorage:
    return LocalStorage(root)


def _all_names(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_symlink() or not path.is_dir())


def synced_paths(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of all that is synced from now on."""
    paths: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: paths.append(str(Path(f"/proc/self/fd/{fd}").readlink())))
    return paths


class TestDurability:
    @pytest.mark.parametrize("name", WRITES)
    def test_content_is_synced_before_the_name_appears_and_the_name_after(
        self, storage: LocalStorage, root: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        synced: list[tuple[str, bool]] = []
        final = root / "a" / "b" / "file"
        real_sync = os.fsync

        def sync(descriptor: int) -> None:
            path = Path(f"/proc/self/fd/{descriptor}").readlink()
            synced.append((str(path.relative_to(root.parent)) if path.is_dir() else "content", final.exists()))
            if not path.is_dir():
                assert path.read_bytes() == b"new"
            real_sync(descriptor)

        monkeypatch.setattr(os, "fsync", sync)
        WRITES[name](storage, "a/b/file")

        # The new folders first: root in its parent, a in root, b in a.
        assert sorted(synced[:3]) == [(".", False), ("table", False), ("table/a", False)]
        streamed = name == "open_output"
        assert synced[3:] == [("content", streamed), ("table/a/b", True)]

        synced.clear()
        WRITES[name](storage, "a/b/second")
        assert [path for path, _ in synced] == ["content", "table/a/b"]

    def test_folder_made_by_somebody_else_is_synced_before_the_first_durable_write(
        self, storage: LocalStorage, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        storage.put("a/scratch", b"", durable=False)
        synced = synced_paths(monkeypatch)

        storage.put_if_absent("a/file", b"")

        assert str(root) in synced

    def test_folder_that_somebody_else_has_made_anew_is_synced_again(
        self, storage: LocalStorage, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        storage.put("a/file", b"")
        (root / "a").rename(root / "old")
        (root / "a").mkdir()
        synced = synced_paths(monkeypatch)

        storage.put("a/file", b"")

        assert str(root) in synced

    def test_folder_made_anew_is_synced_again_after_many_others_were_read(
        self, storage: LocalStorage, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(known_folders, "FOLDERS_MAX", 3)
        storage.put("a/file", b"")
        for name in "bcd":
            (root / name).mkdir()
            (root / name / "file").touch()
            storage.read(f"{name}/file")
        (root / "a").rename(root / "old")
        (root / "a").mkdir()
        synced = synced_paths(monkeypatch)

        storage.put("a/file", b"")

        assert str(root) in synced

    def test_write_that_need_not_last_syncs_nothing(
        self, storage: LocalStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("synced"))

        storage.put("a/marker", b"", durable=False)
        with storage.open_output("a/exchange", durable=False) as output:
            output.write(b"x")

        assert [info.name for info in storage.list_folder("a").files] == ["exchange", "marker"]

    @pytest.mark.parametrize("name", ["put_if_absent", "open_output"])
    def test_content_that_cannot_be_synced_gets_no_name(
        self, storage: LocalStorage, root: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        root.mkdir()

        def sync(descriptor: int) -> None:
            if not Path(f"/proc/self/fd/{descriptor}").is_dir():
                raise OSError(errno.EIO, "disk is dying")

        monkeypatch.setattr(os, "fsync", sync)
        with pytest.raises(StorageError) as caught:
            WRITES[name](storage, "file")

        assert isinstance(caught.value.__cause__, OSError)
        assert _all_names(root) == []


def _win_race(root: str, count: int) -> list[int]:
    storage = LocalStorage(root)
    won = []
    for number in range(count):
        try:
            storage.put_if_absent(f"race/{number}", str(os.getpid()).encode())
        except AlreadyExistsError:
            continue
        won.append(number)
    return won


class TestExclusiveCreation:
    def test_eight_processes_race_and_exactly_one_wins_each_name(self, storage: LocalStorage, root: Path) -> None:
        with multiprocessing.get_context("spawn").Pool(8) as pool:
            won = pool.starmap(_win_race, [(str(root), 60)] * 8, chunksize=1)

        assert sorted(number for each in won for number in each) == list(range(60))
        assert len(_all_names(root)) == 60
        assert all(storage.read(f"race/{number}").isdigit() for number in range(60))

    def test_link_whose_answer_was_lost_counts_as_made(
        self, storage: LocalStorage, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real_link = os.link

        def link(source: Path, target: Path, **options: bool) -> None:
            real_link(source, target, **options)
            raise FileExistsError(errno.EEXIST, "asked twice")

        monkeypatch.setattr(os, "link", link)
        storage.put_if_absent("file", b"mine")

        assert _all_names(root) == ["file"]

    def test_file_system_without_hard_links_is_refused_by_name(
        self, storage: LocalStorage, root: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def link(*_: object, **__: object) -> None:
            raise OSError(errno.EPERM, "no links here")

        monkeypatch.setattr(os, "link", link)
        with pytest.raises(UnsupportedFeatureError, match="hard links"):
            storage.put_if_absent("file", b"mine")
        assert _all_names(root) == []

    def test_stream_to_a_taken_name_is_refused_and_leaves_the_file(self, storage: LocalStorage) -> None:
        storage.put("file", b"theirs")

        with pytest.raises(AlreadyExistsError):
            storage.open_output("file")
        assert storage.read("file") == b"theirs"

    @pytest.mark.parametrize("name", WRITES)
    def test_file_where_a_folder_should_be_is_no_lost_race(self, storage: LocalStorage, name: str) -> None:
        storage.put("a", b"")

        with pytest.raises(StorageError) as caught:
            WRITES[name](storage, "a/b")
        assert type(caught.value) is StorageError

    @pytest.mark.parametrize("name", WRITES)
    def test_removed_folder_is_made_again(self, storage: LocalStorage, root: Path, name: str) -> None:
        storage.put("a/b/first", b"")
        LocalStorage(root).delete_folder("a")

        WRITES[name](storage, "a/b/second")

        assert _all_names(root) == ["a/b/second"]


class TestSideFiles:
    @pytest.mark.parametrize("name", [*WRITES, "put_if_match", "delete"])
    def test_checksums_of_other_content_never_stay(self, storage: LocalStorage, root: Path, name: str) -> None:
        storage.put("f/hoodie.properties", b"old")
        _, tag = storage.read_with_etag("f/hoodie.properties")
        if name in {"put_if_absent", "open_output"}:
            storage.delete("f/hoodie.properties")
        (root / "f" / ".hoodie.properties.crc").write_bytes(b"crc")

        if name == "put_if_match":
            storage.put_if_match("f/hoodie.properties", b"new", etag=tag)
        elif name == "delete":
            storage.delete("f/hoodie.properties")
        else:
            WRITES[name](storage, "f/hoodie.properties")

        assert not (root / "f" / ".hoodie.properties.crc").exists()

    def test_refused_creation_leaves_the_checksums_of_the_file_that_is_there(
        self, storage: LocalStorage, root: Path
    ) -> None:
        storage.put("file", b"theirs")
        (root / ".file.crc").write_bytes(b"crc")

        with pytest.raises(AlreadyExistsError):
            storage.put_if_absent("file", b"mine")
        assert (root / ".file.crc").exists()

    def test_side_files_are_hidden_from_listings_and_go_with_their_folder(
        self, storage: LocalStorage, root: Path
    ) -> None:
        storage.put("f/lease", b"1")
        storage.put_if_match("f/lease", b"2", etag=storage.read_with_etag("f/lease")[1])
        (root / "f" / ".lease.crc").write_bytes(b"")
        (root / "f" / ".pyhudi-tmp-0123").write_bytes(b"")
        (root / "f" / ".x_1.log.1_0-1-0").write_bytes(b"")

        expected = ["f/.x_1.log.1_0-1-0", "f/lease"]
        assert [info.path for info in storage.list_folder("f").files] == expected
        assert [f"f/{name}" for name in storage.list_names("f")] == expected
        assert [info.path for info in storage.list_recursive("")] == expected
        storage.delete_folder("f")
        assert list(root.iterdir()) == []

    def test_failed_condition_makes_no_folder_and_no_lock_file(self, storage: LocalStorage, root: Path) -> None:
        with pytest.raises(PreconditionFailedError):
            storage.put_if_match("no/such", b"", etag="x")
        assert not root.exists()


class TestSymlinks:
    @pytest.fixture
    def outside(self, tmp_path: Path, root: Path) -> Path:
        outside = tmp_path / "table-of-others"
        outside.mkdir()
        (outside / "precious").write_bytes(b"precious")
        root.mkdir()
        (root / "way_out").symlink_to(outside)
        (root / "dangling").symlink_to(tmp_path / "not made yet")
        return outside

    @pytest.mark.parametrize("folder", ["way_out", "way_out/sub", "dangling"])
    def test_symlink_out_of_the_table_is_refused_for_changes(
        self, storage: LocalStorage, outside: Path, folder: str
    ) -> None:
        calls: list[Callable[[], object]] = [
            *(lambda write=write: write(storage, f"{folder}/precious") for write in WRITES.values()),  # type: ignore[misc]
            lambda: storage.put_if_match(f"{folder}/precious", b"", etag="x"),
            lambda: storage.delete(f"{folder}/precious"),
            lambda: storage.delete_folder(folder),
        ]
        for call in calls:
            with pytest.raises(UnsafePathError, match="symbolic link"):
                call()
        assert _all_names(outside.parent) == ["table-of-others/precious", "table/dangling", "table/way_out"]
        assert (outside / "precious").read_bytes() == b"precious"

    def test_symlinked_files_are_replaced_not_written_through(
        self, storage: LocalStorage, outside: Path, root: Path
    ) -> None:
        (root / "file").symlink_to(outside / "precious")

        storage.put("file", b"mine")
        assert (outside / "precious").read_bytes() == b"precious"
        assert storage.read("file") == b"mine"

    def test_symlink_that_stays_in_the_table_is_followed(self, storage: LocalStorage, root: Path) -> None:
        storage.put("a/file", b"mine")
        (root / "file").symlink_to("a/file")
        (root / "b").symlink_to("a")

        assert storage.read("file") == storage.read("b/file") == b"mine"
        assert [info.path for info in storage.list_folder("b").files] == ["b/file"]

    @pytest.mark.parametrize("path", ["way_out/precious", "file"])
    def test_symlink_out_of_the_table_is_not_read(
        self, storage: LocalStorage, outside: Path, root: Path, path: str
    ) -> None:
        (root / "file").symlink_to(outside / "precious")
        calls: list[Callable[[], object]] = [
            lambda: storage.read(path),
            lambda: storage.open_input(path),
            lambda: storage.read_with_etag(path),
            lambda: storage.info(path),
            lambda: storage.put_if_match(path, b"", etag="x"),
            lambda: storage.list_folder("way_out"),
            lambda: storage.list_names("way_out"),
            lambda: storage.list_recursive("way_out"),
            lambda: storage.list_folder(""),
            lambda: storage.list_names(""),
            lambda: storage.list_recursive(""),
        ]
        for call in calls:
            with pytest.raises(UnsafePathError, match="symbolic link"):
                call()

    @pytest.mark.parametrize("replaced", ["part", "part/sub", "link"])
    def test_symlink_that_replaces_a_folder_which_was_used_before_is_refused(
        self, storage: LocalStorage, outside: Path, root: Path, replaced: str
    ) -> None:
        (outside / "sub").mkdir()
        folder = "part/sub" if replaced.startswith("part") else "link"
        (root / "inside").mkdir()
        (root / "link").symlink_to("inside")
        storage.put(f"{folder}/precious", b"mine")
        assert storage.read(f"{folder}/precious") == b"mine"

        (root / replaced).rename(root / "aside")
        (root / replaced).symlink_to(outside)

        calls: list[Callable[[], object]] = [
            *(lambda write=write: write(storage, f"{folder}/precious") for write in WRITES.values()),  # type: ignore[misc]
            lambda: storage.read(f"{folder}/precious"),
            lambda: storage.open_input(f"{folder}/precious"),
            lambda: storage.info(f"{folder}/precious"),
            lambda: storage.delete(f"{folder}/precious"),
            lambda: storage.list_folder(folder),
            lambda: storage.list_recursive(folder),
            lambda: storage.delete_folder(folder),
        ]
        for call in calls:
            with pytest.raises(UnsafePathError, match="symbolic link"):
                call()
        assert _all_names(outside) == ["precious"]
        assert (outside / "precious").read_bytes() == b"precious"

    def test_lock_file_that_is_a_symlink_out_of_the_table_is_not_written_through(
        self, storage: LocalStorage, outside: Path, root: Path
    ) -> None:
        storage.put("file", b"mine")
        _, etag = storage.read_with_etag("file")
        (root / LOCK_NAME).symlink_to(outside / "precious")

        with pytest.raises(UnsafePathError, match="symbolic link"):
            storage.put_if_match("file", b"new", etag=etag)

        assert (outside / "precious").read_bytes() == b"precious"

    def test_deleting_a_folder_removes_links_but_not_what_they_lead_to(
        self, storage: LocalStorage, outside: Path, root: Path
    ) -> None:
        storage.delete_folder("")

        assert not root.exists()
        assert (outside / "precious").read_bytes() == b"precious"

    def test_root_that_is_a_symlink_works(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to("real")
        storage = LocalStorage(tmp_path / "link")

        storage.put_if_absent("a/b", b"x")
        assert storage.uri == f"file:{tmp_path}/link"
        assert (tmp_path / "real" / "a" / "b").read_bytes() == b"x"
        storage.delete_folder("a")
        assert storage.list_folder("") == FolderListing((), ())

    def test_circle_of_symlinks_is_listed_once(self, storage: LocalStorage, root: Path) -> None:
        storage.put("a/file", b"")
        (root / "a" / "again").symlink_to(root)

        assert "a/file" in [info.path for info in storage.list_recursive("")]


@contextmanager
def _file_size_limit(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class TestErrors:
    @pytest.mark.parametrize("name", ["put", "put_if_absent"])
    def test_quota_that_is_used_up_leaves_nothing_new(self, storage: LocalStorage, root: Path, name: str) -> None:
        storage.put("old", b"old")
        with _file_size_limit(100_000), pytest.raises(OutOfSpaceError) as caught:
            {"put": storage.put, "put_if_absent": storage.put_if_absent}[name]("new", bytes(200_000))

        assert isinstance(caught.value.__cause__, OSError)
        assert _all_names(root) == ["old"]
        assert storage.read("old") == b"old"

    def test_quota_used_up_under_a_parquet_writer_is_typed_and_leaves_no_file(
        self, storage: LocalStorage, root: Path
    ) -> None:
        table = pa.table({"x": range(200_000)})
        with (
            _file_size_limit(100_000),
            pytest.raises(OutOfSpaceError),
            storage.open_output("file.parquet") as output,
            pq.ParquetWriter(output, table.schema, compression="none", use_dictionary=False) as writer,
        ):
            writer.write_table(table)
        assert _all_names(root) == []

    def test_close_after_a_failed_write_completes_nothing(self, storage: LocalStorage, root: Path) -> None:
        output = storage.open_output("file")
        with _file_size_limit(100_000), pytest.raises(OutOfSpaceError):
            output.write(bytes(200_000))

        with pytest.raises(StorageError, match="discarded"):
            output.close()
        assert _all_names(root) == []

    def test_stream_that_is_forgotten_leaves_its_file_as_a_killed_process_would(self, storage: LocalStorage) -> None:
        output = storage.open_output("file")
        output.write(b"half")
        del output

        assert storage.read("file") == b"half"

    @pytest.mark.parametrize(
        ("number", "expected"),
        [
            (errno.ENOSPC, OutOfSpaceError),
            (errno.EDQUOT, OutOfSpaceError),
            (errno.EFBIG, OutOfSpaceError),
            (errno.EACCES, PermissionDeniedError),
            (errno.EROFS, PermissionDeniedError),
            (errno.EIO, StorageError),
        ],
    )
    @pytest.mark.parametrize("name", WRITES)
    def test_error_of_the_system_becomes_the_error_that_says_what_to_do(
        self,
        storage: LocalStorage,
        root: Path,
        monkeypatch: pytest.MonkeyPatch,
        name: str,
        number: int,
        expected: type[HudiError],
    ) -> None:
        root.mkdir()

        def write(*_: object) -> int:
            raise OSError(number, os.strerror(number))

        monkeypatch.setattr(os, "write", write)
        with pytest.raises(expected) as caught:
            WRITES[name](storage, "file")
        monkeypatch.undo()

        assert type(caught.value) is expected
        assert caught.value.context["path"] == f"file:{root}/file"
        cause = caught.value.__cause__
        assert isinstance(cause, OSError)
        assert cause.errno == number
        assert _all_names(root) == []

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else and back")
    @pytest.mark.parametrize("name", [*WRITES, "delete", "delete_folder", "read", "list_folder", "list_names"])
    def test_access_that_the_system_denies_is_permission_denied(
        self, storage: LocalStorage, root: Path, name: str
    ) -> None:
        storage.put("closed/file", b"x")
        (root / "closed").chmod(0o700)
        calls: dict[str, Callable[[], object]] = {
            "delete": lambda: storage.delete("closed/file"),
            "delete_folder": lambda: storage.delete_folder("closed"),
            "read": lambda: storage.read("closed/file"),
            "list_folder": lambda: storage.list_folder("closed"),
            "list_names": lambda: storage.list_names("closed"),
        }
        os.seteuid(65534)
        try:
            with pytest.raises(PermissionDeniedError):
                calls.get(name, lambda: WRITES[name](storage, "closed/new"))()
        finally:
            os.seteuid(0)
        assert _all_names(root) == ["closed/file"]

    def test_input_of_a_missing_file_names_it(self, storage: LocalStorage, root: Path) -> None:
        with pytest.raises(NotFoundError, match="no file") as caught:
            storage.open_input("a/b")
        assert caught.value.context["path"] == f"file:{root}/a/b"


@pytest.mark.parametrize("name", ["put", "put_if_match"])
def test_old_checksums_go_before_new_content_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A process that dies in between leaves old content without checksums, which Hadoop reads."""
    storage = LocalStorage(tmp_path)
    storage.put("file", b"old")
    _, tag = storage.read_with_etag("file")
    (tmp_path / ".file.crc").write_bytes(b"of the old content")
    seen: list[bool] = []
    replace = os.replace

    def watched(temporary: str, target: str) -> None:
        seen.append((tmp_path / ".file.crc").exists())
        replace(temporary, target)

    monkeypatch.setattr(os, "replace", watched)
    if name == "put":
        storage.put("file", b"new")
    else:
        storage.put_if_match("file", b"new", etag=tag)

    assert seen == [False]
