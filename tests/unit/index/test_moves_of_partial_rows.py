"""A partial update that would move a record to another partition is refused: its other columns stay there."""

from __future__ import annotations

import pytest
from tests.support.tables import contents, new_table, open_table, rows

from pyhudi.errors import UnsupportedFeatureError

PARTIAL = {
    "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.PartialUpdateAvroPayload",
    "hoodie.simple.index.update.partition.path": "true",
    "hoodie.record.index.update.partition.path": "true",
    "hoodie.metadata.record.index.enable": "true",
}


@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "RECORD_INDEX"])
def test_partial_row_under_an_index_that_moves_records_is_refused_and_nothing_changes(index: str) -> None:
    options = {**PARTIAL, "hoodie.index.type": "SIMPLE"}
    storage = new_table(**options).handle.state.storage
    open_table(storage, **options).upsert(rows((1, "oslo", 1, "kept")))
    before = {info.path for info in storage.list_recursive("")}
    with pytest.raises(UnsupportedFeatureError, match="across partitions"):
        open_table(storage, **{**options, "hoodie.index.type": index}).upsert(rows((1, "rome", 2, None)))
    assert contents(storage) == {(1, "oslo", 1, "kept")}
    assert {info.path for info in storage.list_recursive("")} == before
