"""Index definitions: the file of JVM Hudi there and back, and damage."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyhudi.errors import CorruptDataError
from pyhudi.format.metadata_table.index_definitions import (
    IndexDefinition,
    format_index_definitions,
    parse_index_definitions,
)

GOLDEN = Path(__file__).parents[3] / "golden" / "metadata" / "index_definitions.json"
PATH = ".hoodie/.index_defs/index.json"


def test_file_of_jvm_hudi_is_written_again_to_the_same_bytes():
    data = GOLDEN.read_bytes()
    assert format_index_definitions(parse_index_definitions(data, path=PATH).values()) == data


def test_definitions_say_what_is_indexed():
    found = parse_index_definitions(GOLDEN.read_bytes(), path=PATH)
    assert list(found) == ["record_index", "secondary_index_s", "column_stats", "expr_index_idx_e"]
    assert found["record_index"].options == {"isPartitioned": "true"}
    assert found["column_stats"].source_columns[:4] == (
        "_hoodie_commit_time",
        "_hoodie_partition_path",
        "_hoodie_record_key",
        "id",
    )
    assert found["expr_index_idx_e"] == IndexDefinition(
        name="expr_index_idx_e",
        kind="column_stats",
        function="from_unixtime",
        source_columns=("ts",),
        options={"expr": "from_unixtime", "format": "yyyy-MM-dd"},
        version="V2",
    )


def test_definition_without_version_stays_without():
    data = b'{"indexDefinitions": {"a": {"indexName": "a", "indexType": "column_stats"}}}'
    (found,) = parse_index_definitions(data, path=PATH).values()
    assert found == IndexDefinition(name="a", kind="column_stats")
    assert b"version" not in format_index_definitions([found])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"indexDefinitions": []}',
        b'{"indexDefinitions": {"a": 1}}',
        b'{"indexDefinitions": {"a": {"indexType": 5}}}',
        b'{"indexDefinitions": {"a": {"indexType": "x", "sourceFields": [1]}}}',
        b'{"indexDefinitions": {"a": {"indexType": "x", "indexOptions": {"a": 1}}}}',
        b'{"indexDefinitions": {"a": {"indexType": "\\ud800"}}}',
    ],
)
def test_file_that_is_damaged_is_refused_with_its_name(data: bytes):
    with pytest.raises(CorruptDataError) as caught:
        parse_index_definitions(data, path=PATH)
    assert caught.value.context["path"] == PATH
