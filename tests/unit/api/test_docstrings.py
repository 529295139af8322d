"""The examples in docstrings of the public face do what they say."""

from __future__ import annotations

import doctest
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api import hudi_table, inspect, recovery, scan, services, writes


def _examples() -> Iterator[Any]:
    for module in (hudi_table, inspect, recovery, scan, services, writes):
        for found in doctest.DocTestFinder(exclude_empty=True).find(module, module.__name__):
            if found.examples:
                needs_duckdb = "duckdb" in found.name and importlib.util.find_spec("duckdb") is None
                marks = [pytest.mark.skip(reason="duckdb is not installed")] if needs_duckdb else []
                yield pytest.param(found, id=found.name, marks=marks)


@pytest.mark.parametrize("found", [*_examples()])
def test_example_of_a_docstring_does_what_it_says(found: doctest.DocTest, tmp_path: Path) -> None:
    """With a merge-on-read `table` of two trips, and `rows` that change one of them."""
    schema = pa.schema([("id", pa.int64()), ("city", pa.string()), ("fare", pa.float64())])
    table = pyhudi.HudiTable.create(
        tmp_path / "trips", schema=schema, record_key="id", partition_by="city", table_type="mor"
    )
    table.insert(pa.table({"id": [1, 2], "city": ["oslo", "rome"], "fare": [9.5, 7.0]}))
    rows = pa.table({"id": [2], "city": ["rome"], "fare": [8.0]})
    for example in found.examples:
        example.source = example.source.replace('"/tmp/', f'"{tmp_path}/')
    found.globs = {"pyhudi": pyhudi, "pa": pa, "table": table.refresh(), "rows": rows}
    printed: list[str] = []

    results = doctest.DocTestRunner().run(found, out=printed.append)

    assert results.failed == 0, "".join(printed)
