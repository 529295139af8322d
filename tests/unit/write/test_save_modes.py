"""Save modes where a table is being made, or is to become another one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.audit import audit

import pyhudi
from pyhudi.errors import ConfigError, SchemaMismatchError, TableExistsError, WriteConflictError
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import Storage
from pyhudi.write import save as saving

OPTIONS = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
MOR = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}


def save(path: Path, rows: dict[str, Any], mode: str = "append", **options: str) -> Any:
    return pyhudi.save(pa.table(rows), str(path), hudi_options={**OPTIONS, **options}, mode=mode)


def stored(path: Path, **read: Any) -> list[dict[str, Any]]:
    audit(open_storage(str(path)))
    table = pyhudi.HudiTable.for_path(str(path))
    rows = (
        table.scan(**read)
        .to_arrow()
        .drop_columns([name for name in table.scan().to_arrow().column_names if name[0] == "_"])
    )
    return sorted(rows.to_pylist(), key=lambda row: str(row["id"]))


def first_writes_at_once(path: Path, monkeypatch: pytest.MonkeyPatch, mode: str, **options: str) -> list[Any]:
    """What became of two calls that both see no table."""
    both_have_looked = threading.Barrier(2)
    look = saving.table_exists

    def looked(storage: Storage) -> bool:
        found = look(storage)
        both_have_looked.wait()
        return found

    monkeypatch.setattr(saving, "table_exists", looked)
    outcomes: list[Any] = []

    def write(number: int) -> None:
        try:
            outcomes.append(save(path, {"id": [number]}, mode, **options))
        except pyhudi.errors.HudiError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def test_of_two_first_writes_in_mode_append_the_second_appends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Both bring new keys, which may be the same, so the second looks again.
    again = {"hoodie.write.num.retries.on.conflict.failures": "3"}
    outcomes = first_writes_at_once(tmp_path / "t", monkeypatch, "append", **again)

    assert [outcome.inserted for outcome in outcomes] == [1, 1]
    assert stored(tmp_path / "t") == [{"id": 1}, {"id": 2}]


@pytest.mark.parametrize("mode", ["ignore", "errorifexists"])
def test_of_two_first_writes_in_a_mode_that_writes_no_table_twice_one_writes(
    mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes = first_writes_at_once(tmp_path / "t", monkeypatch, mode)

    others = [outcome for outcome in outcomes if not isinstance(outcome, pyhudi.WriteResult)]
    assert [type(outcome) for outcome in others] == [type(None) if mode == "ignore" else TableExistsError]
    assert len(stored(tmp_path / "t")) == 1


@pytest.mark.parametrize("kind", [{}, MOR], ids=["cow", "mor"])
@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert"])
@pytest.mark.parametrize(
    "rows",
    [
        pytest.param({"id": [1], "w": ["a"]}, id="another column instead"),
        pytest.param({"id": [1]}, id="fewer columns"),
        pytest.param({"id": [1], "v": ["a"]}, id="another type"),
        pytest.param({"id": ["k"], "v": [1]}, id="another type of keys"),
        pytest.param({"id": [1.5], "v": [1]}, id="keys of floats"),
    ],
)
def test_overwrite_replaces_columns_that_the_rows_do_not_fit(
    rows: dict[str, Any], operation: str, kind: dict[str, str], tmp_path: Path
) -> None:
    first = save(tmp_path, {"id": [1, 2], "v": [1, 2]}, **kind)
    save(tmp_path, {"id": [2], "v": [3]}, **kind)

    save(tmp_path, rows, "overwrite", **{"hoodie.datasource.write.operation": operation}, **kind)

    table = pyhudi.HudiTable.for_path(str(tmp_path))
    assert table.schema.names == list(rows)
    assert stored(tmp_path) == pa.table(rows).to_pylist()
    then = table.scan(["id", "v"], as_of=first.instant).to_arrow()
    assert sorted(then.to_pylist(), key=str) == [{"id": 1, "v": 1}, {"id": 2, "v": 2}]

    save(tmp_path, rows, **kind)
    assert stored(tmp_path) == pa.table(rows).to_pylist()


def test_overwrite_that_fits_keeps_the_columns_in_their_order(tmp_path: Path) -> None:
    save(tmp_path, {"id": [1], "v": [1]})

    save(tmp_path, {"x": ["new"], "v": pa.array([2], pa.int32()), "id": [1]}, "overwrite")

    assert stored(tmp_path) == [{"id": 1, "v": 2, "x": "new"}]
    assert pyhudi.HudiTable.for_path(str(tmp_path)).schema.field("v").type == pa.int64()


def test_replacing_the_rows_by_an_operation_keeps_the_columns(tmp_path: Path) -> None:
    save(tmp_path, {"id": [1], "v": [1]})

    with pytest.raises(SchemaMismatchError):
        save(tmp_path, {"id": [1]}, **{"hoodie.datasource.write.operation": "insert_overwrite_table"})

    assert stored(tmp_path) == [{"id": 1, "v": 1}]


@pytest.mark.parametrize(
    "options",
    [
        {"hoodie.datasource.write.partitionpath.field": "v"},
        {"hoodie.datasource.write.recordkey.field": "v"},
        {"hoodie.table.name": "other"},
        MOR,
    ],
)
def test_overwrite_with_another_kind_of_table_says_what_to_do_and_changes_nothing(
    options: dict[str, str], tmp_path: Path
) -> None:
    save(tmp_path, {"id": [1], "v": [1]})

    with pytest.raises(ConfigError, match="delete the folder first"):
        save(tmp_path, {"id": [2], "v": [2]}, "overwrite", **options)

    assert stored(tmp_path) == [{"id": 1, "v": 1}]


@pytest.mark.parametrize("second_ends_first", [True, False])
def test_overwrite_with_other_columns_and_a_write_by_the_previous_ones_do_not_both_win(
    second_ends_first: bool, tmp_path: Path
) -> None:
    save(tmp_path, {"id": [1], "v": [1]})
    calls: list[tuple[dict[str, list[Any]], str]] = [
        ({"id": [1], "v": [True]}, "overwrite"),
        ({"id": [9], "v": [9]}, "append"),
    ]
    first, second = calls if second_ends_first else reversed(calls)
    rows = pa.table(first[0])

    def rows_that_come_late() -> Iterator[pa.RecordBatch]:
        save(tmp_path, *second)
        yield from rows.to_batches()

    late = pa.RecordBatchReader.from_batches(rows.schema, rows_that_come_late())

    with pytest.raises(WriteConflictError):
        pyhudi.save(late, str(tmp_path), hudi_options=OPTIONS, mode=first[1])

    winner = {"id": 9, "v": 9} if second_ends_first else {"id": 1, "v": True}
    assert winner in stored(tmp_path)
    assert len({type(row["v"]) for row in stored(tmp_path)}) == 1
