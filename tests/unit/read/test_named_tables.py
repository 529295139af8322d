"""Errors of damaged and deleted files say which table they are of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.support.table_builder import TableBuilder
from tests.support.tables import open_table

from pyhudi.errors import CorruptDataError, HistoryNotRetainedError, HudiError
from pyhudi.storage.protocol import Storage
from pyhudi.table.lister import list_data_files


def files_of(storage: Storage, ending: str) -> list[str]:
    return [info.path for info in list_data_files(storage) if info.path.endswith(ending)]


def named(storage: Storage, kind: type[HudiError], read: Callable[[], Any]) -> None:
    with pytest.raises(kind) as raised:
        read()
    assert raised.value.context["table"] == storage.uri


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_error_of_a_damaged_file_names_the_table(kind: str) -> None:
    storage = TableBuilder(9, kind).commit(rows=4).delta_commit(updates=4).build()
    table = open_table(storage)
    for path in files_of(storage, ".parquet"):
        storage.put(path, b"PAR1 no parquet PAR1")
    for read in (lambda: table.scan().to_arrow(), lambda: table.scan(["id"], [("id", "==", 1)]).to_arrow()):
        named(storage, CorruptDataError, read)
    storage.put(".hoodie/hoodie.properties", b"hoodie.table.version=\xff")
    named(storage, CorruptDataError, lambda: open_table(storage))


def test_error_of_a_deleted_file_and_of_a_cleaned_state_names_the_table() -> None:
    options = {"hoodie.clean.commits.retained": "1"}
    storage = TableBuilder(9, "cow", options=options).commit(rows=4).delta_commit(updates=4).build()
    table = open_table(storage)
    first = table.inspect.history()["instant"].to_pylist()[-1]
    scan = table.scan()
    for _ in range(4):
        open_table(storage).upsert(table.scan().to_arrow())
    open_table(storage).services.clean(hudi_options=options)
    named(storage, HistoryNotRetainedError, lambda: open_table(storage).scan(as_of=first).to_arrow())
    for path in files_of(storage, ".parquet"):
        storage.delete(path)
    named(storage, HistoryNotRetainedError, scan.to_arrow)
