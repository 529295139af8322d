"""Comparisons find in Spark what they find in Arrow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.comparison_cases import CASES, NOON, REFUSED, ROWS

import pyhudi
from pyhudi.errors import ConfigError
from pyhudi.spark.reads.reader import spark_condition


def test_comparisons_find_the_rows_in_spark_that_they_find_in_arrow(spark: Any, tmp_path: Path) -> None:
    table = pyhudi.HudiTable.create(str(tmp_path), schema=ROWS.schema, record_key="id", partition_by="city")
    table.insert(ROWS)
    table = table.refresh()

    # One query for all of them: each condition as a column.
    held = [spark_condition(where, ROWS.schema).alias(str(number)) for number, (where, _) in enumerate(CASES)]
    rows = table.scan().to_df(spark).select("id", *held).collect()
    found = {
        str(where): sorted(row.id for row in rows if row[str(number)] is True)
        for number, (where, _) in enumerate(CASES)
    }

    assert found == {str(where): ids for where, ids in CASES}
    for where in ([("city", "not in", ["rome"])], (("local", ">", NOON), ("g", "!=", 0.1))):
        in_arrow = sorted(table.scan(["id"], where).to_arrow()["id"].to_pylist())
        assert sorted(row.id for row in table.scan(["id"], where).to_df(spark).collect()) == in_arrow
    for where in REFUSED:
        with pytest.raises(ConfigError, match="cannot be filtered"):
            table.scan(where=where).to_df(spark)
