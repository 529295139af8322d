"""Bloom filters in the metadata table: those in the footers of the live base files, and what lookups read of them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from tests.support.tables import contents, new_table, open_table, rows

from pyhudi.format.bloom import BLOOM_FILTER_KEY
from pyhudi.format.metadata_table.keys import bloom_filter_keys
from pyhudi.format.metadata_table.schema import BLOOM_FILTER_COLUMN
from pyhudi.io.base_file import read_footer
from pyhudi.metadata_table.lookup import all_records
from pyhudi.metadata_table.state import load_metadata_state
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.file_system_view import load_view
from pyhudi.table.state import load_table
from pyhudi.testing.faults import FaultStorage

BUILD = {
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.index.bloom.filter.file.group.count": "2",
}
INDEXED = {**BUILD, "hoodie.index.type": "BLOOM", "hoodie.bloom.index.use.metadata": "true"}


@pytest.mark.parametrize("options", [{}, {"hoodie.datasource.write.partitionpath.field": ""}], ids=["cities", "none"])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_the_filters_are_those_of_the_live_files(version: int, options: dict[str, str]) -> None:
    storage = MemoryStorage()
    if options:
        options["hoodie.datasource.write.keygenerator.class"] = "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
    table = new_table(storage, version=version, **options)
    table.upsert(rows((1, "oslo", 1, "a"), (2, "rome", 1, "b")))  # before there are filters
    open_table(storage, **BUILD).upsert(rows((3, "oslo", 1, "a"), (4, "bern", 1, "b")))
    _check(storage)
    for turn in range(4):
        open_table(storage).upsert(rows((1, "oslo", turn + 2, "b"), (10 + turn, "oslo", 1, "a")))
        _check(storage)
    before = len(_stored(storage))
    open_table(storage).services.clean(hudi_options={"hoodie.cleaner.commits.retained": "1"})
    assert len(_stored(storage)) < before
    _check(storage)


def test_a_lookup_opens_no_file_that_its_filter_excludes() -> None:
    table = new_table(**BUILD)
    storage = table.handle.state.storage
    table.upsert(rows((1, "oslo", 1, "a")))
    open_table(storage, **{"hoodie.parquet.small.file.limit": "0"}).upsert(rows((2, "oslo", 1, "b")))
    first, second = (one for one in load_view(storage, load_table(storage).timeline).latest["city=oslo"])
    counting = FaultStorage(storage)
    open_table(counting, **INDEXED).upsert(rows((2, "oslo", 2, "c")))
    opened = {one.path for one in counting.operations if one.name == "open_input"}
    assert contents(storage) == {(1, "oslo", 1, "a"), (2, "oslo", 2, "c")}
    assert len({one.base.path for one in (first, second) if one.base is not None} & opened) == 1


def test_filters_in_partitions_of_one_letter_and_for_keys_of_two_columns_are_found() -> None:
    options = {
        "hoodie.datasource.write.recordkey.field": "id,note",
        "hoodie.datasource.write.hive_style_partitioning": "false",
        "hoodie.parquet.small.file.limit": "0",
    }
    table = new_table(**BUILD, **options)
    storage = table.handle.state.storage
    table.upsert(rows((1, "o", 1, "a"), (2, "r", 1, "b")))
    open_table(storage, **options).upsert(rows((3, "o", 1, "a")))
    _check(storage)
    open_table(storage, **INDEXED, **options).upsert(rows((1, "o", 2, "a"), (1, "o", 2, "c")))
    assert contents(storage) == {(1, "o", 2, "a"), (1, "o", 2, "c"), (2, "r", 1, "b"), (3, "o", 1, "a")}
    _check(storage)


def _check(storage: Storage) -> None:
    """The newest files have their filters, and no other record is there than of files that are there."""
    stored, live, newest = _stored(storage), _of_footers(storage, of_all=True), _of_footers(storage, of_all=False)
    assert newest.items() <= stored.items()
    assert stored.items() <= live.items()


def _stored(storage: Storage) -> dict[str, bytes]:
    state = load_metadata_state(load_table(storage))
    return {
        row["key"]: row[BLOOM_FILTER_COLUMN]["bloomFilter"]
        for table in all_records(state, "bloom_filters", BLOOM_FILTER_COLUMN)
        for row in table.to_pylist()
        if not row[BLOOM_FILTER_COLUMN]["isDeleted"]
    }


def _of_footers(storage: Storage, *, of_all: bool) -> dict[str, bytes]:
    """Keys and filters of the base files of the newest slices, or of all that there are."""
    view = load_view(storage, load_table(storage).timeline)
    newest = [file_slice.base for slices in view.latest.values() for file_slice in slices]
    files = [file for group in view.groups.values() for file in group.base_files] if of_all else newest
    found = {}
    for file in files:
        assert file is not None
        key = bloom_filter_keys(pa.array([file.partition_path or "."]), pa.array([file.path.rpartition("/")[2]]))
        found[key[0].as_py()] = read_footer(storage, file.path).values[BLOOM_FILTER_KEY].encode()
    return found
