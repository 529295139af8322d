"""File ids in the metadata table begin as those of JVM Hudi: by other ids neither engine finds the other's files."""

from __future__ import annotations

import pytest

from pyhudi.metadata_table.partitions.maintained import PARTITIONS
from pyhudi.metadata_table.partitions.secondary_index import SecondaryIndexPartition


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("files", "files-"),
        ("column_stats", "col-stats-"),
        ("partition_stats", "partition-stats-"),
        ("bloom_filters", "bloom-filters-"),
        ("record_index", "record-index-"),
    ],
)
def test_file_ids_of_a_partition_begin_as_in_jvm_hudi(name: str, prefix: str) -> None:
    assert PARTITIONS[name].file_id_prefix == prefix


def test_file_ids_of_a_secondary_index_begin_with_its_name() -> None:
    by_city = SecondaryIndexPartition(name="secondary_index_by_city", column="city", hashes_values=True)
    assert by_city.file_id_prefix == "secondary-index-by-city-"
