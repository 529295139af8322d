"""Base files that another writer encrypted are refused by name, and never end the process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.sources import encrypt

import pyhudi
from pyhudi.errors import UnsupportedFeatureError

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64())])
ROWS = pa.table({"id": ["a", "b"], "n": [1, 2]}, SCHEMA)


@pytest.mark.parametrize("plaintext_footer", [True, False])
@pytest.mark.parametrize(
    "act",
    [
        lambda table: table.scan().to_arrow(),
        lambda table: table.scan(["n"], where=[("id", "==", "a")]).to_arrow(),
        lambda table: table.scan(where=[("n", ">", 1)]).explain(),
        lambda table: table.changes().to_arrow(),
        lambda table: table.upsert(ROWS),
    ],
    ids=["scan", "filter", "explain", "changes", "upsert"],
)
def test_encrypted_base_file_is_refused_by_name(
    tmp_path: Path, act: Callable[[pyhudi.HudiTable], object], plaintext_footer: bool
) -> None:
    table = pyhudi.HudiTable.create(tmp_path, schema=SCHEMA, record_key="id")
    table.bulk_insert(ROWS)
    (file,) = (path for path in tmp_path.glob("*.parquet"))
    encrypt(file, "n", plaintext_footer=plaintext_footer)

    with pytest.raises(UnsupportedFeatureError, match="encrypted") as error:
        act(table.refresh())

    assert error.value.context["path"] == file.name
