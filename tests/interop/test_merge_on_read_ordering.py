"""Deletes with ordering values of every type, in logs of ours: which of them take effect, says JVM Hudi."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.interop.compare import assert_same_rows
from tests.interop.deviations import UNREADABLE_DELETES
from tests.interop.parties import HudiRs, JvmHudi, Pyhudi
from tests.interop.shapes import EVENT_TIME_PAYLOAD
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle, OracleError

import pyhudi

OracleOf = Callable[[str], Oracle]

#: A type, and its value for a small number: greater for a greater one.
KINDS: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
    "int": (pa.int32(), lambda n: n),
    "long": (pa.int64(), lambda n: n * 10**10),
    "float": (pa.float32(), lambda n: n / 2),
    "double": (pa.float64(), lambda n: n / 3),
    "boolean": (pa.bool_(), lambda n: n >= 10),
    "string": (pa.string(), lambda n: f"v{n:03}"),
    "decimal": (pa.decimal128(20, 2), lambda n: Decimal(n * 101).scaleb(-2)),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        lambda n: dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=n),
    ),
    "date": (pa.date32(), lambda n: dt.date(2024, 1, 1) + dt.timedelta(days=n)),
}

#: Types of which releases find one Java class in deletes and another in rows; such a delete takes effect always.
UNLIKE: dict[int, set[str]] = {6: {"string", "decimal", "date"}, 8: {"string", "decimal"}, 9: set()}

VERSIONS = [pytest.param(version, id=f"v{version}") for version in RELEASE_OF_TABLE_VERSION]


def rows(kind: str, *versions: tuple[int, int], deleted: tuple[int, ...] = ()) -> pa.Table:
    """Rows for pairs of a key's number and an ordering value; those of some keys delete."""
    arrow_type, value = KINDS[kind]
    return pa.table(
        {
            "id": [f"k{key}" for key, _ in versions],
            "ts": pa.array([value(number) for _, number in versions], arrow_type),
            "note": [f"{key} at {number}" for key, number in versions],
            "_hoodie_is_deleted": [key in deleted for key, _ in versions],
        }
    )


def left_in(version: int, kind: str) -> set[str]:
    """The keys that are left. Of 0.15.0, deletes that reach a base file take effect whatever their value (k2).

    Booleans are only two: what is earlier with other types is at the same time (k0).
    """
    left = {"k0", "k2", "k5", "k7"}
    if kind in UNLIKE[version] or kind == "boolean":
        left.remove("k0")
    return left - {"k2"} if version == 6 else left


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_deletes_with_ordering_values_take_effect_as_in_jvm_hudi(
    version: int, kind: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    jvm, path = JvmHudi(oracle_of(RELEASE_OF_TABLE_VERSION[version])), tmp_path / "t"
    options = {"hoodie.compact.inline": "false"}
    if version == 6:
        options["hoodie.datasource.write.payload.class"] = EVENT_TIME_PAYLOAD
    first = rows(kind, *((key, 10) for key in range(8)))
    table = pyhudi.HudiTable.create(
        str(path),
        schema=first.schema,
        record_key="id",
        ordering_fields="ts",
        name="t",
        table_version=version,
        table_type="mor",
        hudi_options=options,
    )
    table.bulk_insert(first)
    # 1: later, 2: earlier than the stored row, 4: at the same time.
    table.upsert(rows(kind, (0, 20), (1, 20), (2, 5), (3, 20), (4, 10), deleted=(1, 2, 4)))
    # 0: earlier, 3: later than the row in the log.
    table.upsert(rows(kind, (0, 15), (3, 25), (5, 5), deleted=(0, 3)))
    table.delete(["k6"])

    ours = Pyhudi().read(path)
    if (version, kind) in UNREADABLE_DELETES:
        with pytest.raises(OracleError, match="ClassCastException"):
            jvm.read(path)
    else:
        assert_same_rows(jvm.read(path), ours, hint=f"{jvm}")
    assert set(ours.column("id").to_pylist()) == left_in(version, kind)
    # hudi-rs compares in all versions as 1.2.0 does.
    assert set(HudiRs().read(path).column("id").to_pylist()) == left_in(9, kind)
