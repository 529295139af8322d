"""The example of docs/concurrency.md does what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "concurrency.md"


def test_the_example_of_the_page_on_many_writers_does_what_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = re.findall(r"<!-- tested by .*? -->\n```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    names: dict[str, Any] = {}

    exec(example.replace("/tmp/seats", str(tmp_path / "seats")), names)

    rows = names["seats"].refresh().to_arrow(columns=["seat", "taken_by"]).to_pylist()
    assert {row["seat"]: row["taken_by"] for row in rows} == {1: "ann", 2: "bob"}
    assert capsys.readouterr().out == ""


def test_what_the_example_reads_from_a_conflict_is_there() -> None:
    from tests.unit.write.test_concurrent_writers import WRITES, opened, prepared, with_other_in_between

    import pyhudi

    storage = prepared()
    with pytest.raises(pyhudi.errors.WriteConflictError) as caught:
        WRITES["update oslo"](opened(with_other_in_between(storage, WRITES["delete in oslo"])))

    assert caught.value.context["winner"] == opened(storage).history()["instant"][0].as_py()
    (group,) = caught.value.context["file_groups"]
    assert group.startswith("city=oslo/")
