"""Exchange files that stay open while batches are read from them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pyhudi.engine import exchange_files
from pyhudi.engine.exchange_files import ExchangeFiles, ExchangeWriter
from pyhudi.storage.memory import MemoryStorage
from pyhudi.testing.faults import FaultStorage

NAMES = ("a", "b", "c")


@pytest.mark.parametrize(("limit", "opened"), [(3, ["a", "b", "c"]), (2, ["a", "b", "c", "a", "b"])])
def test_batches_come_from_their_files_however_few_may_be_open(
    monkeypatch: pytest.MonkeyPatch, limit: int, opened: list[str]
) -> None:
    storage = FaultStorage(MemoryStorage())
    for name in NAMES:
        with ExchangeWriter(storage, name, pa.schema([("row", pa.string())])) as writer:
            for number in range(2):
                writer.write(pa.RecordBatch.from_pydict({"row": [f"{name}{number}"]}))
    monkeypatch.setattr(exchange_files, "OPEN_FILES_MAX", limit)

    with ExchangeFiles(storage) as files:
        read = [files.batch(name, number).column("row")[0].as_py() for number in (1, 0) for name in NAMES[: 2 + number]]

    assert read == ["a1", "b1", "c1", "a0", "b0"]
    assert [o.path for o in storage.operations if o.name == "open_input"] == opened
