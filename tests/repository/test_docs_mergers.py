"""The examples of docs/mergers.md do what they say."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "mergers.md"
BLOCK = re.compile(r"<!-- (?:(\S+), )?tested by tests/repository/\S+ -->\n```python\n(.*?)```", re.DOTALL)


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the page's examples leave behind, run one after the other as a reader would."""
    monkeypatch.syspath_prepend(tmp_path)
    found: dict[str, Any] = {}
    for file_name, code in BLOCK.findall(PAGE.read_text()):
        if file_name:
            (tmp_path / file_name).write_text(code)
        else:
            exec(code.replace('"/tmp/', f'"{tmp_path}/'), found)
    return found


def test_the_examples_of_the_page_on_mergers_do_what_they_say(names: dict[str, Any]) -> None:
    assert names["answer"].to_pylist() == [{"day": "d1", "page": "p1", "hoodie_record_count_sum": 4, "count_all": 2}]
    assert names["first"] is not names["again"]
    assert names["first"].instant == names["again"].instant
    assert names["visits"].refresh().history().num_rows == 3
    assert names["wide"].to_pylist() == [
        {"id": 1, "name": "lamp", "price": 9.5, "stock": 3},
        {"id": 2, "name": None, "price": None, "stock": 8},
    ]
    bids = names["opened"].to_arrow(["lot", "bidder", "bid"]).to_pylist()
    assert bids == [{"lot": 1, "bidder": "ann", "bid": 70}]
