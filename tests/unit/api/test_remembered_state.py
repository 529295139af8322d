"""A process that knew a table answers as one that never saw it, whatever has become of the table at its path."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.bootstraps import bootstrapped_anew

import pyhudi

Kind = Literal["cow", "mor"]

SCHEMA = pa.schema([("id", pa.int64()), ("city", pa.string()), ("n", pa.int64())])
INDEXED = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}
#: Little is kept, so that there is an archive.
SHORT = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.compact.inline": "false",
}
BATCH = "hoodie.write.batch.id"


def rows(*values: tuple[int, str, int]) -> pa.Table:
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(zip(*values, strict=True), SCHEMA, strict=True)], schema=SCHEMA
    )


def opened(path: Path, options: Mapping[str, str] = SHORT) -> pyhudi.HudiTable:
    return pyhudi.HudiTable.for_path(path, hudi_options=options)


def made(path: Path, version: int, kind: Kind, *, begin: int) -> None:
    """A table of four rows with an archive. Tables with another `begin` have other rows in files of the same size."""
    table = pyhudi.HudiTable.create(
        path,
        schema=SCHEMA,
        record_key="id",
        partition_by="city",
        table_type=kind,
        table_version=version,
        hudi_options=SHORT | (INDEXED if version > 6 else {}),
    )
    for turn in range(5):
        table.refresh().upsert(
            rows(*((begin + key, "oslo" if key % 2 else "rome", 10 * begin + turn) for key in range(4))),
            hudi_options={BATCH: f"{begin}-{turn}"},
        )
    table.refresh().services.clean()
    table.refresh().services.archive()


def answers(path: Path) -> dict[str, Any]:
    """What a process says of the table at a path, by all ways that remember something."""
    table = opened(path)
    history = table.inspect.history()
    return {
        "rows": sorted(map(str, table.scan(columns=SCHEMA.names).to_arrow().to_pylist())),
        "by bounds": sorted(table.scan(columns=["id"], where=pc.field("n") >= 53).to_arrow()["id"].to_pylist()),
        "by key": sorted(table.lookup([1, 2, 11, 12], columns=["id"])["id"].to_pylist()),
        "history": [str(write) for write in history.to_pylist()],
        "value of the archive": table.inspect.commit_value("_pyhudi_batch_id"),
        "files": sorted(map(str, table.inspect.files().to_pylist())),
        "check": table.inspect.metadata_check().to_pylist(),
    }


def repeated_batch(path: Path) -> dict[str, Any]:
    """What becomes of a batch that the table of `made` with `begin=0` had, and of rows under an index in memory."""
    before = opened(path).inspect.last_write()
    written = opened(path).upsert(rows((0, "rome", 900)), hudi_options={BATCH: "0-1", "hoodie.index.type": "INMEMORY"})
    is_new = before is None or written.instant != before.instant
    return {"is new": is_new, "updated": written.updated, "inserted": written.inserted, **answers(path)}


def another_table_moved_here(path: Path, folder: Path, version: int, kind: Kind) -> None:
    made(folder / "other", version, kind, begin=10)
    shutil.rmtree(path)
    shutil.move(folder / "other", path)


def older_copy_put_back(path: Path, folder: Path, version: int, kind: Kind) -> None:
    del version, kind
    shutil.copytree(path, folder / "copy")
    opened(path).upsert(rows((0, "rome", 700), (1, "oslo", 701)))
    answers(path)
    shutil.rmtree(path)
    shutil.move(folder / "copy", path)
    opened(path).upsert(rows((0, "rome", 800), (1, "oslo", 801)))


def rolled_back(path: Path, folder: Path, version: int, kind: Kind) -> None:
    del folder, version, kind
    written = opened(path).upsert(rows((0, "rome", 700), (9, "oslo", 701)), hudi_options={BATCH: "rolled back"})
    answers(path)
    assert written.instant is not None
    opened(path).recovery.rollback(written.instant)
    opened(path).upsert(rows((0, "rome", 800), (9, "rome", 801)))


def restored(path: Path, folder: Path, version: int, kind: Kind) -> None:
    del folder, version, kind
    opened(path).savepoints.create()
    to = opened(path).savepoints.list()["instant"][0].as_py()
    opened(path).upsert(rows((0, "rome", 700), (9, "oslo", 701)))
    opened(path).delete(pa.table({"id": [1], "city": ["oslo"]}))
    answers(path)
    opened(path).recovery.restore(to)
    opened(path).upsert(rows((0, "rome", 800), (9, "rome", 801)))


CHANGES = [another_table_moved_here, older_copy_put_back, rolled_back, restored]


@pytest.mark.parametrize("version", [6, 9])
def test_open_table_that_was_bootstrapped_anew_has_the_columns_and_rows_of_now(tmp_path: Path, version: int) -> None:
    path = tmp_path / "t"
    table = bootstrapped_anew(path, tmp_path, pa.table({"id": [1, 2]}), city="oslo", version=version)
    assert (table.schema.names, table.scan(columns=["id"]).to_arrow()["id"].to_pylist()) == (["id", "city"], [1, 2])

    bootstrapped_anew(path, tmp_path, pa.table({"id": [7], "late": ["x"]}), city="rome", version=version)

    found = table.refresh().scan(columns=["id", "late", "city"]).to_arrow().to_pylist()
    assert found == [{"id": 7, "late": "x", "city": "rome"}]
    assert table.schema.names == ["id", "late", "city"]


@pytest.mark.parametrize("version", [6, 9])
def test_open_table_that_was_made_anew_says_that_it_is_to_be_opened_again(tmp_path: Path, version: int) -> None:
    path = tmp_path / "t"

    def made_of(first: int) -> pyhudi.HudiTable:
        table = pyhudi.HudiTable.create(path, schema=SCHEMA, record_key="id", table_version=version)
        table.upsert(rows((first, "oslo", 1), (first + 1, "oslo", 1)))
        return table.refresh()

    table = made_of(0)
    shutil.rmtree(path)
    made_of(10)

    with pytest.raises(pyhudi.errors.InvalidRequestError, match="another table was made at its path; open it again"):
        table.scan().to_arrow()

    assert table.refresh().scan(columns=["id"]).to_arrow()["id"].to_pylist() == [10, 11]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize(("version", "kind"), [(6, "mor"), (8, "cow"), (9, "mor")])
def test_process_that_knew_a_table_answers_as_one_that_never_saw_it(
    tmp_path: Path, version: int, kind: Kind, change: Callable[[Path, Path, int, Kind], None]
) -> None:
    path = tmp_path / "t"
    made(path, version, kind, begin=0)
    opened(path).upsert(rows((0, "rome", 600)), hudi_options={"hoodie.index.type": "INMEMORY"})
    answers(path)

    change(path, tmp_path, version, kind)

    shutil.copytree(path, tmp_path / "never seen")
    assert answers(path) == answers(tmp_path / "never seen")
    assert answers(path)["check"] == []
    assert repeated_batch(path)["rows"] == repeated_batch(tmp_path / "never seen")["rows"]
