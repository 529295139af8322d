"""Tables that JVM Hudi and pyhudi write in turn: the options of its writes, every kind of table, and what there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyhudi.storage.open import open_storage
from pyhudi.table.state import TableState, load_table

KINDS = [(version, kind) for version in (9, 8, 6) for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")]


def jvm_options(table_type: str, **others: str) -> dict[str, str]:
    """The options of an upsert by JVM Hudi into a table `t` of ids in cities, without a metadata table."""
    return {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "false",
        **others,
    }


def every_kind(*, quick: tuple[int, str], thorough: tuple[int, str]) -> list[Any]:
    """Every table version and type, as parameters of a test; `quick` and `thorough`: those with these markers."""
    marks = {quick: [pytest.mark.quick], thorough: [pytest.mark.thorough]}
    return [
        pytest.param(version, kind, id=f"v{version}-{kind}", marks=marks.get((version, kind), []))
        for version, kind in KINDS
    ]


def state(path: Path) -> TableState:
    """The table as it is now."""
    return load_table(open_storage(str(path), {}))
