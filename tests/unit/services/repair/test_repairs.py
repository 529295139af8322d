"""Repairs on request: what they change, what they refuse, and that one which dies leaves the table readable."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.support.crashes import BEFORE, COW, crash_images, opened, prepared
from tests.support.tables import contents

import pyhudi
from pyhudi.errors import CorruptDataError, InvalidRequestError, UnsafePathError, WriteConflictError
from pyhudi.format.markers import marker_folder
from pyhudi.format.metadata.partition import PARTITION_METADATA_FILE
from pyhudi.services.frame.service import ServiceCall
from pyhudi.services.metadata_table.rebuild import build_metadata_table, remove_metadata_table
from pyhudi.services.repair.metadata_files import (
    FIXED,
    add_partition_metafiles,
    delete_markers,
    overwrite_properties,
    partition_metafiles,
    remove_corrupt_clean_plans,
)
from pyhudi.services.repair.parquet_files import delete_invalid_files, invalid_parquet_files
from pyhudi.storage.protocol import Storage
from pyhudi.table.lister import list_data_files

_V9 = COW[-1]
_PENDING = "20990101000000000"


def _call(table: pyhudi.HudiTable) -> ServiceCall:
    return table.handle.service_call(None, call="repair")


def _opened(storage: Storage) -> ServiceCall:
    return _call(opened(storage))


def _properties(storage: Storage) -> dict[str, str]:
    return dict(opened(storage).handle.state.config.values)


def _without_metafiles() -> Storage:
    storage = prepared(_V9)
    for info in list_data_files(storage):
        if info.name == PARTITION_METADATA_FILE:
            storage.delete(info.path)
    return storage


def _with_broken_files() -> tuple[Storage, str, str]:
    """A table with an orphan that is no Parquet file, and a damaged file of a completed write."""
    storage = prepared(_V9)
    newest = max(info.path for info in list_data_files(storage) if info.name.endswith(".parquet"))
    folder, _, name = newest.rpartition("/")
    first = opened(storage).handle.state.timeline.completed_writes[0].requested_time
    orphan = f"{folder}/{name.split('_')[0]}x_0-0-0_{int(first) + 1}.parquet"
    storage.put(orphan, b"PAR1 is not enough")
    return storage, orphan, newest


def test_missing_metafiles_are_found_and_put() -> None:
    storage = _without_metafiles()
    found = partition_metafiles(storage)
    assert sorted(found) == ["city=oslo", "city=rome"] or sorted(found) == ["oslo", "rome"]
    assert not any(files.is_marked for files in found.values())

    assert add_partition_metafiles(_opened(storage)) == tuple(sorted(found))

    assert all(files.is_marked for files in partition_metafiles(storage).values())
    assert add_partition_metafiles(_opened(storage)) == ()


def test_markers_go_unless_their_write_is_pending() -> None:
    storage = prepared(_V9)
    done = opened(storage).handle.state.timeline.completed_writes[0].requested_time
    for instant in (done, _PENDING):
        storage.put(f"{marker_folder(instant)}/oslo/x.marker.CREATE", b"")
    storage.put(f".hoodie/timeline/{_PENDING}.commit.requested", b"")

    delete_markers(_opened(storage), done)

    assert storage.list_recursive(marker_folder(done)) == ()
    with pytest.raises(InvalidRequestError, match="pending"):
        delete_markers(_opened(storage), _PENDING)
    assert len(storage.list_recursive(marker_folder(_PENDING))) == 1


@pytest.mark.parametrize("instant", ["..", "../../timeline", "", "x"])
def test_markers_of_what_is_no_instant_are_refused(instant: str) -> None:
    storage = prepared(_V9)
    before = [info.path for info in storage.list_recursive("")]
    with pytest.raises((UnsafePathError, InvalidRequestError, CorruptDataError)):
        delete_markers(_opened(storage), instant)
    assert [info.path for info in storage.list_recursive("")] == before


def test_properties_are_replaced_and_the_changes_told() -> None:
    storage = prepared(_V9)
    old = _properties(storage)

    changes = overwrite_properties(_opened(storage), {**old, "new.one": "1"})

    assert {name: pair for name, pair in changes.items() if pair[0] != pair[1]} == {"new.one": (None, "1")}
    assert _properties(storage) == {**old, "new.one": "1"}
    assert contents(storage) == BEFORE


@pytest.mark.parametrize("name", FIXED)
def test_a_property_that_says_how_files_are_read_is_not_changed(name: str) -> None:
    storage = prepared(_V9)
    old = _properties(storage)
    with pytest.raises(InvalidRequestError, match=name):
        overwrite_properties(_opened(storage), {**old, name: "8" if name == "hoodie.table.version" else "other"})
    assert _properties(storage) == old


def test_properties_of_no_table_or_beside_a_write_are_refused() -> None:
    storage = prepared(_V9)
    old = _properties(storage)
    with pytest.raises(CorruptDataError):
        overwrite_properties(_opened(storage), {"a": "b"})
    storage.put(f".hoodie/timeline/{_PENDING}.commit.requested", b"")
    with pytest.raises(WriteConflictError):
        overwrite_properties(_opened(storage), {**old, "new.one": "1"})
    assert _properties(storage) == old


def test_a_file_that_cannot_be_opened_is_found_and_deleted_if_no_write_needs_it() -> None:
    storage, orphan, newest = _with_broken_files()
    call = _opened(storage)
    assert invalid_parquet_files(call.table, call.engine) == (orphan,)
    folder = orphan.rpartition("/")[0]
    assert invalid_parquet_files(call.table, call.engine, [folder]) == (orphan,)
    assert invalid_parquet_files(call.table, call.engine, ["elsewhere"]) == ()
    assert invalid_parquet_files(call.table, call.engine, [], ["20000101000000000"]) == ()

    delete_invalid_files(call, [orphan])

    assert storage.info(orphan) is None
    storage.put(newest, b"damaged")
    assert invalid_parquet_files(call.table, call.engine) == (newest,)
    with pytest.raises(InvalidRequestError, match="nothing was deleted"):
        delete_invalid_files(call, [newest])
    assert storage.info(newest) is not None


def test_damaged_plans_of_cleans_go_and_others_stay() -> None:
    storage = prepared(_V9)
    storage.put(f".hoodie/timeline/{_PENDING}.clean.requested", b"no plan")

    assert remove_corrupt_clean_plans(_opened(storage)) == (_PENDING,)

    assert remove_corrupt_clean_plans(_opened(storage)) == ()
    assert opened(storage).services.pending().num_rows == 0


def test_a_metadata_table_is_built_once_and_dropped() -> None:
    storage = prepared(_V9)
    remove_metadata_table(_opened(storage))
    assert "files" in build_metadata_table(_opened(storage))
    assert opened(storage).inspect.metadata_check().num_rows == 0
    with pytest.raises(InvalidRequestError, match="has a metadata table"):
        build_metadata_table(_opened(storage))
    storage.put(f".hoodie/timeline/{_PENDING}.commit.requested", b"")
    for change in (remove_metadata_table, build_metadata_table):
        with pytest.raises((WriteConflictError, InvalidRequestError)):
            change(_opened(storage))


def _overwrite(table: pyhudi.HudiTable) -> None:
    old = dict(table.handle.state.config.values)
    overwrite_properties(_call(table), {**old, "new.one": "1"})


_REPAIRS: dict[str, tuple[Callable[[], Storage], Callable[[pyhudi.HudiTable], object]]] = {
    "properties": (lambda: prepared(_V9), _overwrite),
    "metafiles": (_without_metafiles, lambda table: add_partition_metafiles(_call(table))),
    "metadata table dropped": (lambda: prepared(_V9), lambda table: remove_metadata_table(_call(table))),
}


@pytest.mark.parametrize("repair", _REPAIRS)
def test_a_repair_that_dies_leaves_the_rows_and_can_be_run_again(repair: str) -> None:
    prepare, act = _REPAIRS[repair]
    for where, image in crash_images(prepare(), act):
        assert contents(image) == BEFORE, where
        act(opened(image, later=True))
        assert contents(image) == BEFORE, where
        assert opened(image, later=True).inspect.metadata_check().num_rows == 0, where
