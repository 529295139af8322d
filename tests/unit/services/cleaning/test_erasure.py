"""Erasing a value: after a delete and a clean its bytes are in no file below the table's folder."""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.cleaning import save
from tests.support.crashes import opened, rows
from tests.support.table_builder import TableBuilder
from tests.support.tables import contents

import pyhudi
from pyhudi.format.timeline.instant import Action, InstantState
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path

SECRET = "erika-mustermann-4711"
KINDS = [TableBuilder(version, kind) for kind in ("cow", "mor") for version in (6, 8, 9)]
EVERY_KIND = pytest.mark.parametrize("kind", KINDS, ids=str)
CODECS = ("UNCOMPRESSED", "GZIP", "ZSTD")
NOTHING_BY_ITSELF = {"hoodie.clean.automatic": "false"}
ONE_STATE = {"hoodie.clean.commits.retained": "1"}
NEWEST_SLICES = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}
ARCHIVES = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", **ONE_STATE}


def holders(storage: Storage, value: str = SECRET) -> list[str]:
    """The files that hold the value: in their bytes, or in a decoded column."""
    found = []
    for info in storage.list_recursive(""):
        data = storage.read(info.path)
        pieces = [data, *_unzipped(data)]
        files = [data] if info.path.endswith(".parquet") else _parquet_blocks(data)
        if any(value.encode() in piece for piece in pieces) or any(value in v for file in files for v in _values(file)):
            found.append(info.path)
    return sorted(found)


def _unzipped(data: bytes) -> Iterator[bytes]:
    """What is stored by gzip anywhere in a file, as the blocks of HFiles are."""
    at = data.find(b"\x1f\x8b\x08")
    while at >= 0:
        with suppress(zlib.error):
            yield zlib.decompressobj(31).decompress(data[at:])
        at = data.find(b"\x1f\x8b\x08", at + 1)


def _parquet_blocks(data: bytes) -> Iterator[bytes]:
    """The blocks of a log that are Parquet files, whose pages may be compressed."""
    for begin, end in pairwise(re.finditer(b"PAR1", data)):
        block = data[begin.start() : end.end()]
        with suppress(pa.ArrowInvalid):
            pq.ParquetFile(io.BytesIO(block))
            yield block


def _values(data: bytes) -> Iterator[str]:
    """All values of a Parquet file as text, binary ones among them."""
    table = pq.read_table(io.BytesIO(data))
    for column in table.columns:
        texts = column.cast(pa.binary()) if pa.types.is_string(column.type) else column
        for one in texts.to_pylist():
            yield one.decode("utf-8", "replace") if isinstance(one, bytes) else str(one)


def with_secret(kind: TableBuilder, codec: str) -> Storage:
    """A table in whose base files, and in a merge-on-read table also in logs, the value has been for some commits."""
    storage = kind.insert((1, "oslo", 1, SECRET), (2, "oslo", 1, "b"), (3, "rome", 1, "c")).build()
    options = {**NOTHING_BY_ITSELF, "hoodie.parquet.compression.codec": codec}
    opened(storage, **options).upsert(rows((1, "oslo", 2, f"{SECRET} again"), (2, "oslo", 2, "b")))
    opened(storage, **options).upsert(rows((2, "oslo", 3, "b")))
    assert len(holders(storage)) >= 2
    return storage


@EVERY_KIND
@pytest.mark.parametrize("codec", CODECS)
def test_deleted_value_is_in_no_file_once_its_slices_are_cleaned(kind: TableBuilder, codec: str) -> None:
    storage = with_secret(kind, codec)
    table = opened(storage, **NOTHING_BY_ITSELF, **{"hoodie.parquet.compression.codec": codec})

    table.delete(rows((1, "oslo", 9, "")))
    assert holders(storage), "older states still have it"
    if kind.is_merge_on_read:
        table.services.compact()
    table.services.clean(hudi_options=NEWEST_SLICES)

    assert holders(storage) == []
    assert contents(storage) == {(2, "oslo", 3, "b"), (3, "rome", 1, "c")}


@EVERY_KIND
def test_by_commits_the_value_goes_once_the_delete_is_older_than_the_retained_ones(kind: TableBuilder) -> None:
    storage = with_secret(kind, "GZIP")
    table = opened(storage, **NOTHING_BY_ITSELF)
    table.delete(rows((1, "oslo", 9, "")))
    if kind.is_merge_on_read:
        table.services.compact()
    table.services.clean(hudi_options=ONE_STATE)
    assert holders(storage), "readers of the newest commit may have begun before it"

    table.upsert(rows((3, "rome", 2, "c")))
    table.services.clean(hudi_options=ONE_STATE)

    assert holders(storage) == []


def with_secret_in_change_data(version: int, mode: str) -> tuple[Storage, pyhudi.HudiTable]:
    """A table whose value was deleted by a write that captured its changes, with only the newest slices left."""
    storage = TableBuilder(version, "cow").insert((1, "oslo", 1, "a"), (2, "oslo", 1, "b"), (3, "rome", 1, "c")).build()
    opened(storage).alter.capture_changes(mode)
    table = opened(storage, **NOTHING_BY_ITSELF)
    table.upsert(rows((1, "oslo", 2, SECRET)))
    table.delete(rows((1, "oslo", 9, "")))
    table.services.clean(hudi_options=NEWEST_SLICES)
    return storage, table


@pytest.mark.parametrize("version", [6, 9])
def test_change_data_log_of_the_delete_has_the_value_until_its_file_group_is_rewritten(version: int) -> None:
    storage, table = with_secret_in_change_data(version, "DATA_BEFORE_AFTER")
    [path] = holders(storage)
    assert path.endswith(".cdc"), "the row before the delete is there, in the newest slice"

    table.upsert(rows((3, "rome", 2, "c")))
    table.services.clean(hudi_options=NEWEST_SLICES)
    assert holders(storage) == [path], "a write to another file group moves nothing"

    table.upsert(rows((2, "oslo", 3, "b")))
    table.services.clean(hudi_options=NEWEST_SLICES)
    assert holders(storage) == []


@pytest.mark.parametrize("version", [6, 9])
def test_change_data_log_of_the_delete_goes_with_its_file_group_that_a_clustering_replaced(version: int) -> None:
    storage, table = with_secret_in_change_data(version, "DATA_BEFORE_AFTER")
    [path] = holders(storage)
    assert table.services.cluster().num_rows == 0, "its partition has one small file"

    clustered = table.services.cluster(hudi_options={"hoodie.clustering.plan.strategy.sort.columns": "id"})
    table.services.clean(hudi_options=NEWEST_SLICES)
    assert clustered.num_rows == 1
    assert holders(storage) == [path], "readers of the state before the newest write may be at work"

    table.upsert(rows((3, "rome", 2, "c")))
    table.services.clean(hudi_options=NEWEST_SLICES)
    assert holders(storage) == []


def test_change_data_log_with_keys_alone_does_not_have_the_value() -> None:
    storage, _ = with_secret_in_change_data(9, "OP_KEY_ONLY")

    assert holders(storage) == []


STATISTICS_KINDS = pytest.mark.parametrize(
    "kind", [TableBuilder(9, "cow"), TableBuilder(8, "mor"), TableBuilder(6, "cow")], ids=str
)


def with_statistics_of_the_secret(kind: TableBuilder) -> tuple[Storage, pyhudi.HudiTable]:
    """A table whose only trace of the deleted value is in the statistics of its metadata table."""
    storage = with_secret(kind, "GZIP")
    statistics = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}
    table = opened(storage, **NOTHING_BY_ITSELF, **statistics)
    table.upsert(rows((1, "oslo", 4, f"{SECRET} once more")))
    table.delete(rows((1, "oslo", 9, "")))
    if kind.is_merge_on_read:
        table.services.compact()
    table.services.clean(hudi_options=NEWEST_SLICES)
    left = holders(storage)
    assert left
    assert all(path.startswith(".hoodie/metadata/") for path in left), left
    return storage, table


@STATISTICS_KINDS
def test_statistics_of_the_value_go_when_the_metadata_table_is_merged_and_cleaned(kind: TableBuilder) -> None:
    storage, table = with_statistics_of_the_secret(kind)

    for number in range(20):
        table.upsert(rows((2, "oslo", 10 + number, "b")))

    assert holders(storage) == []
    assert table.refresh().inspect.metadata_check().to_pylist() == []


@STATISTICS_KINDS
def test_metadata_table_holds_statistics_of_the_value_until_it_is_built_again(kind: TableBuilder) -> None:
    storage, table = with_statistics_of_the_secret(kind)

    table.refresh().recovery.rebuild_metadata_table()

    assert holders(storage) == []
    assert "column_stats" in load_table(storage).config.metadata_partitions
    assert contents(storage) == {(2, "oslo", 3, "b"), (3, "rome", 1, "c")}


@pytest.mark.parametrize("kind", [TableBuilder(6, "cow"), TableBuilder(9, "mor")], ids=str)
def test_overwritten_value_goes_as_a_deleted_one(kind: TableBuilder) -> None:
    storage = with_secret(kind, "GZIP")
    table = opened(storage, **NOTHING_BY_ITSELF)

    table.upsert(rows((1, "oslo", 9, "forgotten")))
    if kind.is_merge_on_read:
        table.services.compact()
    table.services.clean(hudi_options=NEWEST_SLICES)

    assert holders(storage) == []


def test_savepoint_keeps_the_value_until_it_is_deleted() -> None:
    storage = with_secret(TableBuilder(9, "cow"), "GZIP")
    kept = load_table(storage).timeline.completed_writes[-1].requested_time
    save(storage, kept)
    table = opened(storage, **NOTHING_BY_ITSELF)
    table.delete(rows((1, "oslo", 9, "")))
    table.services.clean(hudi_options=NEWEST_SLICES)
    assert holders(storage), "the savepoint names a file with it"

    version = load_table(storage).version
    for one in load_table(storage).timeline.instants:
        if one.action is Action.SAVEPOINT and one.state is InstantState.COMPLETED:
            storage.delete(instant_path(one, version))
    storage.delete(f"{version.timeline_folder}/{kept}.savepoint.inflight")
    table.services.clean(hudi_options={**NEWEST_SLICES, "hoodie.clean.incremental.enabled": "false"})

    assert holders(storage) == []


@pytest.mark.parametrize("version", [6, 9])
def test_dropped_partition_is_erased_but_for_its_name_in_the_timeline_and_the_archive(version: int) -> None:
    """Metadata name partitions and files for as long as they are kept; an archive is never thinned out."""
    storage = TableBuilder(version, "cow").insert((1, SECRET, 1, "hidden words"), (3, "rome", 1, "c")).build()
    opened(storage, **NOTHING_BY_ITSELF).delete_partition(f"city={SECRET}")
    for number in range(8):
        opened(storage, **ARCHIVES, **{"hoodie.archive.automatic": "true"}).upsert(rows((3, "rome", 2 + number, "c")))

    assert holders(storage, "hidden words") == []
    left = holders(storage)
    archive = load_table(storage).version.history_folder
    assert left
    assert all(path.startswith(".hoodie/") for path in left)
    assert any(path.startswith(archive) for path in left)


def test_what_a_user_puts_into_a_commit_stays_in_the_timeline_and_the_archive() -> None:
    storage = TableBuilder(9, "cow").insert((3, "rome", 1, "c")).build()
    note = {"hoodie.datasource.write.commitmeta.key.prefix": "note.", "note.who": SECRET}
    opened(storage, **ARCHIVES, **note).upsert(rows((3, "rome", 2, "c")))
    assert len(holders(storage)) == 1
    for number in range(8):
        opened(storage, **ARCHIVES, **{"hoodie.archive.automatic": "true"}).upsert(rows((3, "rome", 3 + number, "c")))

    [path] = holders(storage)
    assert path.startswith(".hoodie/timeline/history/")
