"""All indexes of a table stay, and stay true, while it is clustered and cleaned again and again."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest
from tests.support.tables import new_table, open_table, rows

from pyhudi.table.state import load_table

OPTIONS = {
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "1",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.clean.commits.retained": "1",
    "hoodie.clustering.plan.strategy.small.file.limit": "1000000000",
    "hoodie.metadata.compact.max.delta.commits": "3",
}
ROUNDS = 20


@pytest.mark.parametrize("version", [8, 9])
def test_twenty_clusterings_and_cleans_keep_every_index_and_every_key(version: int) -> None:
    table = new_table(version=version, **OPTIONS)
    storage = table.handle.state.storage
    table.upsert(rows(*((n, "oslo", 0, f"Note {n}") for n in range(12))))
    open_table(storage, **OPTIONS).indexes.create("by_note", "secondary", "note")
    by_lower = {"expr": "lower"}
    open_table(storage, **OPTIONS).indexes.create("by_lower", "expression", "note", expression=by_lower)
    partitions = load_table(storage).config.metadata_partitions
    for turn in range(1, ROUNDS + 1):
        changed = [(n, "oslo", turn, f"Note {n} of {turn}") for n in (turn % 12, (turn + 5) % 12)]
        open_table(storage, **OPTIONS).upsert(rows(*changed))
        open_table(storage, **OPTIONS).services.cluster(hudi_options=OPTIONS)
        open_table(storage, **OPTIONS).services.clean(hudi_options=OPTIONS)
        table = open_table(storage)
        assert load_table(storage).config.metadata_partitions == partitions
        assert table.lookup(range(12), ["id"]).num_rows == 12
        for n, _, _, note in changed:
            assert table.scan(["id"], [("note", "==", note)]).to_arrow()["id"].to_pylist() == [n]
            told = pc.ascii_lower(pc.field("note")) == note.lower()
            assert table.scan(["id"], told).to_arrow()["id"].to_pylist() == [n]
