"""What is different on HDFS: killed writers, lost answers, a NameNode that is away, and its refusals."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.support.hdfs import Hdfs
from tests.support.hdfs_proxy import proxy_before

from pyhudi.errors import (
    AlreadyExistsError,
    ConfigError,
    NotFoundError,
    OutOfSpaceError,
    PermissionDeniedError,
    StorageError,
    UnavailableError,
    UnsupportedFeatureError,
)
from pyhudi.storage import hdfs_lock
from pyhudi.storage.hdfs import LITTER_AGE_SECONDS, HdfsStorage
from pyhudi.storage.hdfs_lock import ReplacementLock
from pyhudi.storage.open import open_storage
from pyhudi.storage.paths import TEMPORARY_PREFIX

PROGRAM = Path(__file__).with_name("hdfs_killed_program.py")


def new_store(hdfs: Hdfs) -> HdfsStorage:
    storage = open_storage(hdfs.new_root())
    assert isinstance(storage, HdfsStorage)
    return storage


def all_names(storage: HdfsStorage, folder: str) -> list[str]:
    """The names that HDFS itself lists, temporary files among them."""
    path = f"{storage._base}/{folder}"
    return sorted(status.path.rpartition("/")[2] for status in storage._client.children(path))


def kill_inside(storage: HdfsStorage, method: str, when: str, call: str) -> None:
    ended = subprocess.run([sys.executable, PROGRAM, storage.uri, method, when, call], check=False, timeout=120)
    assert ended.returncode == -signal.SIGKILL


@pytest.mark.parametrize("call", ["put", "put_if_absent"])
@pytest.mark.parametrize("method", ["create", "rename"])
def test_writer_killed_before_its_rename_is_no_obstacle(hdfs: Hdfs, method: str, call: str) -> None:
    storage = new_store(hdfs)
    kill_inside(storage, method, "after" if method == "create" else "before", call)

    assert storage.info("t/file") is None
    assert storage.list_recursive("") == ()
    (litter,) = all_names(storage, "t")
    assert litter.startswith(TEMPORARY_PREFIX)
    storage.put_if_absent("t/file", b"of the next writer")
    assert storage.read("t/file") == b"of the next writer"


@pytest.mark.parametrize("call", ["put", "put_if_absent"])
def test_writer_killed_after_its_rename_has_written(hdfs: Hdfs, call: str) -> None:
    storage = new_store(hdfs)
    kill_inside(storage, "rename", "after", call)

    assert storage.read("t/file") == b"content"
    assert all_names(storage, "t") == ["file"]
    with pytest.raises(AlreadyExistsError):
        storage.put_if_absent("t/file", b"")


def test_stream_of_a_killed_writer_can_be_deleted_at_once(hdfs: Hdfs) -> None:
    storage = new_store(hdfs)
    kill_inside(storage, "create", "after", "open_output")

    left = storage.info("t/file")
    assert left is not None
    assert left.size == 0
    with pytest.raises(AlreadyExistsError):
        storage.open_output("t/file")
    storage.delete("t/file")
    with storage.open_output("t/file") as again:
        again.write(b"again")
    assert storage.read("t/file") == b"again"


def test_litter_of_a_day_is_deleted_by_a_writer_that_lists_its_folder(hdfs: Hdfs) -> None:
    storage = new_store(hdfs)
    kill_inside(storage, "rename", "before", "put")
    kill_inside(storage, "rename", "before", "put")
    old, young = all_names(storage, "t")
    day_before = int((time.time() - LITTER_AGE_SECONDS) * 1000) - 60_000
    storage._client._client.set_times(f"{storage._base}/t/{old}", day_before, day_before)

    storage.list_folder("t")
    assert all_names(storage, "t") == [old, young]  # a reader deletes nothing
    storage.put("t/file", b"x")

    assert all_names(storage, "t") == [young, "file"]


def test_machine_whose_clock_is_days_ahead_deletes_no_temporary_file_of_today(
    hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = new_store(hdfs)
    kill_inside(storage, "rename", "before", "put")
    (young,) = all_names(storage, "t")
    days_ahead = time.time() + 3 * LITTER_AGE_SECONDS
    with monkeypatch.context() as clock:
        clock.setattr(time, "time", lambda: days_ahead)
        storage.list_folder("t")
        storage.put("t/file", b"x")

    assert all_names(storage, "t") == [young, "file"]


@pytest.mark.parametrize("call", ["put", "put_if_absent"])
@pytest.mark.parametrize("method", ["create", "rename2"])
def test_lost_answer_of_the_namenode_makes_no_writer_lose_against_itself(hdfs: Hdfs, method: str, call: str) -> None:
    root = hdfs.new_root()
    with proxy_before(hdfs.authority) as proxy:
        storage = open_storage(root.replace(hdfs.authority, proxy.authority))
        storage.put("other", b"")
        proxy.lose_answer_to(method)
        getattr(storage, call)("t/file", b"content")
        assert proxy.lost == 1

    assert open_storage(root).read("t/file") == b"content"


def test_loser_whose_answer_was_lost_loses(hdfs: Hdfs) -> None:
    root = hdfs.new_root()
    open_storage(root).put("t/file", b"of the winner")
    with proxy_before(hdfs.authority) as proxy:
        storage = open_storage(root.replace(hdfs.authority, proxy.authority))
        storage.put("other", b"")
        proxy.lose_answer_to("rename2")
        with pytest.raises(AlreadyExistsError):
            storage.put_if_absent("t/file", b"of the loser")
        assert proxy.lost == 1

    assert open_storage(root).read("t/file") == b"of the winner"


def test_replacement_whose_answer_was_lost_has_replaced(hdfs: Hdfs) -> None:
    root = hdfs.new_root()
    open_storage(root).put("lease", b"old")
    with proxy_before(hdfs.authority) as proxy:
        storage = open_storage(root.replace(hdfs.authority, proxy.authority))
        _, tag = storage.read_with_etag("lease")
        proxy.lose_answer_to("rename2")
        storage.put_if_match("lease", b"new", etag=tag)
        assert proxy.lost == 1

    assert open_storage(root).read("lease") == b"new"
    assert [info.path for info in open_storage(root).list_recursive("")] == ["lease"]


def test_namenode_that_is_away_for_a_moment_is_waited_for(hdfs: Hdfs) -> None:
    root = hdfs.new_root()
    with proxy_before(hdfs.authority) as proxy:
        storage = open_storage(root.replace(hdfs.authority, proxy.authority))
        storage.put("before", b"")
        proxy.go_away()
        back = threading.Timer(1, proxy.come)
        back.start()
        storage.put_if_absent("t/file", b"content")
        back.join()

    assert open_storage(root).read("t/file") == b"content"


def test_namenode_that_is_away_is_an_error_with_a_type(hdfs: Hdfs) -> None:
    with proxy_before(hdfs.authority) as proxy:
        nobody = proxy.authority
    settings = {"dfs.client.failover.max.attempts": "1", "dfs.client.failover.sleep.max.millis": "10"}
    storage = open_storage(f"hdfs://{nobody}/t", settings)

    for call in (storage.read, storage.info, storage.delete, lambda path: storage.put(path, b"")):
        with pytest.raises(UnavailableError) as caught:
            call("file")
        assert caught.value.context["path"] == f"hdfs://{nobody}/t/file"


def test_safe_mode_refuses_writes_and_not_reads(hdfs: Hdfs) -> None:
    storage = new_store(hdfs)
    storage.put("file", b"x")

    with hdfs.safe_mode():
        assert storage.read("file") == b"x"
        for call in (storage.delete, storage.open_output, lambda path: storage.put_if_absent(path, b"")):
            with pytest.raises(UnavailableError, match="safe mode"):
                call("other")

    storage.put_if_absent("other", b"")


def test_folder_of_another_user_is_not_written(hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = new_store(hdfs)
    storage.put("t/file", b"x")
    assert open_storage(storage.uri).read("t/file") == b"x"
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody")
    other = open_storage(storage.uri)

    assert other.read("t/file") == b"x"
    for call in (other.delete, other.open_output, lambda path: other.put(path, b"")):
        with pytest.raises(PermissionDeniedError) as caught:
            call("t/file")
        assert "somebody" in str(caught.value)
        assert "\tat " not in str(caught.value)  # no stack trace


def test_used_up_quota_is_no_space(hdfs: Hdfs) -> None:
    storage = new_store(hdfs)
    storage.put("t/file", b"x")
    hdfs.tell(f"quota {storage._base}/t 1")

    with pytest.raises(OutOfSpaceError):
        storage.put("t/other", b"y")
    with pytest.raises(OutOfSpaceError), storage.open_output("t/stream") as output:
        output.write(b"y")

    assert all_names(storage, "t") == ["file"]


def test_file_in_the_place_of_a_folder_is_an_error(hdfs: Hdfs) -> None:
    storage = new_store(hdfs)
    storage.put("file", b"x")

    for put in (storage.put, storage.put_if_absent):
        with pytest.raises(StorageError, match="is not a directory"):
            put("file/below", b"")


def test_file_deleted_under_its_reader_is_not_found(hdfs: Hdfs) -> None:
    storage = new_store(hdfs)
    storage.put("file", bytes(2 << 20))
    deadline = time.monotonic() + 120
    with storage.open_input("file") as source:
        storage.delete("file")
        with pytest.raises(NotFoundError):  # noqa: PT012  # when a DataNode has deleted the block
            while time.monotonic() < deadline:
                source.seek(0)
                source.read(1 << 20)
                time.sleep(0.1)


def test_slow_holder_of_a_broken_lock_replaces_nothing(hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs_lock, "BREAK_SECONDS", 0.05)
    storage = new_store(hdfs)
    storage.put("lease", b"one")
    slow = ReplacementLock(storage._client, f"{storage._base}/lease")
    slow.take(b"of the slow writer")

    _, tag = storage.read_with_etag("lease")
    storage.put_if_match("lease", b"two", etag=tag)

    assert slow.publish() is False
    slow.release()
    assert storage.read("lease") == b"two"
    assert all_names(storage, "") == ["lease"]


def test_lock_that_others_hold_too_long_is_an_error(hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hdfs_lock, "WAIT_SECONDS", 0.05)
    storage = new_store(hdfs)
    storage.put("lease", b"one")
    holder = ReplacementLock(storage._client, f"{storage._base}/lease")
    holder.take(b"")
    _, tag = storage.read_with_etag("lease")

    with pytest.raises(UnavailableError, match="lock"):
        storage.put_if_match("lease", b"two", etag=tag)

    holder.release()
    assert all_names(storage, "") == ["lease"]
    storage.put_if_match("lease", b"two", etag=tag)


def read_in_child(storage: HdfsStorage) -> None:
    try:
        storage.read("file")
    except UnsupportedFeatureError:
        os._exit(7)


def test_forked_child_of_a_process_that_used_hdfs_is_refused(hdfs: Hdfs) -> None:
    storage = new_store(hdfs)
    storage.put("file", b"x")

    child = multiprocessing.get_context("fork").Process(target=read_in_child, args=(storage,))
    child.start()
    child.join(60)

    assert child.exitcode == 7


def test_missing_client_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)

    with pytest.raises(ConfigError, match=r"pip install 'pyhudi\[hdfs\]'"):
        HdfsStorage(authority="namenode:8020", folder="t", options={})


def test_host_without_a_port_is_asked_at_hadoops_port() -> None:
    pytest.importorskip("hdfs_native")

    assert open_storage("hdfs://namenode/t").uri == "hdfs://namenode/t"
    with pytest.raises(ConfigError, match="HADOOP_CONF_DIR"):
        HdfsStorage(authority="", folder="t", options={})


def test_name_service_of_the_options_leads_to_its_namenode(hdfs: Hdfs) -> None:
    root = hdfs.new_root()
    open_storage(root).put("file", b"x")
    options = {"dfs.ha.namenodes.home": "one", "dfs.namenode.rpc-address.home.one": hdfs.authority}

    assert open_storage(root.replace(hdfs.authority, "home"), options).read("file") == b"x"
