from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from tests.support.pages import blocks

README = Path(__file__).parents[2] / "README.md"


def test_the_first_example_of_the_readme_does_what_it_says(tmp_path: Path) -> None:
    (example,) = [block.code for block in blocks(README) if block.tested_by == "tests/unit/test_readme.py"]
    names: dict[str, object] = {}

    exec(example.replace("/tmp/trips", str(tmp_path / "trips")), names)

    trips, first = names["trips"], names["first"]
    rome = trips.scan(columns=["id", "fare"], where=[("city", "==", "rome")]).to_arrow()  # type: ignore[attr-defined]
    assert sorted(rome.to_pylist(), key=lambda row: row["id"]) == [{"id": 2, "fare": 8.0}, {"id": 3, "fare": 5.5}]
    changes = trips.changes(begin=first.completion_time).to_arrow()  # type: ignore[attr-defined]
    assert sorted(changes["id"].to_pylist()) == [2, 3]
    assert trips.scan(as_of=first.instant).to_arrow().num_rows == 2  # type: ignore[attr-defined]
    left = trips.refresh().scan().to_arrow()  # type: ignore[attr-defined]
    assert isinstance(left, pa.Table)
    assert sorted(left["id"].to_pylist()) == [2, 3]
