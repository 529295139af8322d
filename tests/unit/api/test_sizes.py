"""`inspect.sizes` and `inspect.write_amplification`."""

from __future__ import annotations

import pytest
from tests.support.table_builder import TableBuilder, every_version
from tests.support.tables import open_table


@every_version
def test_sizes_tell_logs_small_files_and_skew(version: int) -> None:
    storage = TableBuilder(version, "mor").commit(rows=9).delta_commit(updates=3).build()
    table = open_table(storage)
    sizes, files = table.inspect.sizes(), table.inspect.files()
    assert (sizes.file_groups, sizes.base_files, sizes.logs, sizes.partitions) == (3, 3, 3, 3)
    assert sizes.base_bytes == sum(files["size"].to_pylist())
    assert sizes.log_bytes == sum(files["log_size"].to_pylist())
    assert sizes.log_ratio == round(sizes.log_bytes / sizes.base_bytes, 3)
    assert (sizes.smallest, sizes.largest) == (min(files["size"].to_pylist()), max(files["size"].to_pylist()))
    assert sizes.small_files == 3
    assert 1.0 <= (sizes.skew or 0) < 1.1


def test_small_files_are_those_below_the_option() -> None:
    table = open_table(TableBuilder(9, "cow").commit(rows=9).build(), **{"hoodie.parquet.small.file.limit": "1000"})
    assert (table.inspect.sizes().small_files, table.inspect.sizes().small_file_limit) == (0, 1000)


def test_table_without_files_has_no_sizes() -> None:
    sizes = open_table(TableBuilder(9, "cow").build()).inspect.sizes()
    assert (sizes.file_groups, sizes.log_ratio, sizes.median, sizes.largest_partition, sizes.skew) == (0,) + (None,) * 4


def test_update_of_one_row_of_ten_is_written_with_the_nine_beside_it() -> None:
    tens = [(key, "oslo", 1, "a") for key in range(10)]
    table = open_table(
        TableBuilder(9, "cow").insert(*tens).upsert((0, "oslo", 2, "b")).delete((1, "oslo", 3, "")).build()
    )
    delete, update, insert = table.inspect.write_amplification().to_pylist()
    assert (insert["rows_changed"], insert["rows_written"], insert["amplification"]) == (10, 10, 1.0)
    assert (update["rows_changed"], update["rows_written"], update["amplification"]) == (1, 10, 10.0)
    assert (delete["rows_changed"], delete["rows_written"], delete["amplification"]) == (1, 9, 9.0)
    assert update["bytes_changed"] == round(update["bytes_written"] / 10)


def test_compaction_writes_and_changes_nothing() -> None:
    table = open_table(TableBuilder(9, "mor").commit(rows=9).delta_commit(updates=3).build())
    table.services.compact()
    compaction, *_ = table.refresh().inspect.write_amplification(limit=1).to_pylist()
    assert (compaction["operation"], compaction["rows_changed"], compaction["bytes_changed"]) == ("compact", 0, 0)
    assert compaction["bytes_written"] > 0
    assert compaction["amplification"] is None


@pytest.mark.parametrize("limit", [0, 1])
def test_limit_bounds_the_writes(limit: int) -> None:
    table = open_table(TableBuilder(9, "cow").commit(rows=3).commit(rows=3).build())
    assert table.inspect.write_amplification(limit=limit).num_rows == limit
