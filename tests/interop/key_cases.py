"""Tables of every key generator: their columns and options, and where readers of JVM Hudi are known to differ."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal

import pyarrow as pa

KEY = "hoodie.datasource.write.recordkey.field"
PARTITION = "hoodie.datasource.write.partitionpath.field"
GENERATOR = "hoodie.datasource.write.keygenerator.class"
TIMEBASED = "hoodie.keygen.timebased."
HIVE = {"hoodie.datasource.write.hive_style_partitioning": "true"}
ENCODED = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
ALL_RELEASES = frozenset({"0.15.0", "1.0.2", "1.2.0"})
SINCE_1_0 = frozenset({"1.0.2", "1.2.0"})

JANUARY = dt.datetime(2024, 1, 31, 10, 0, 0, 500_000, tzinfo=dt.UTC)
DECEMBER = dt.datetime(2023, 12, 31, 23, 59, 59, tzinfo=dt.UTC)
MILLIS = pa.array([int(one.timestamp() * 1000) for one in (JANUARY, DECEMBER, JANUARY)], pa.int64())
SECONDS = pa.array([one.as_py() // 1000 for one in MILLIS], pa.int64())
TIMES = pa.array([JANUARY, DECEMBER, None], pa.timestamp("us", "UTC"))
DAYS = pa.array([JANUARY.date(), DECEMBER.date(), None], pa.date32())
DAY_TEXTS = pa.array(["2024-01-31", "2023-12-31", "2024-01-31"])
CITIES = pa.array(["oslo", "rome", "oslo"])
ODD = pa.array(["x/ y", "y%20=z", None])


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyCase:
    """Three rows `a`, `b`, `c` (or other `columns`) under key generator options.

    `releases`: those that can write it. `unreadable`: those that cannot read what they wrote. `from_path`: columns that
    JVM Hudi takes from the folders, so that it gives a text of them instead of the value.
    """

    name: str
    columns: Mapping[str, pa.Array] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    releases: frozenset[str] = ALL_RELEASES
    unreadable: frozenset[str] = frozenset()
    from_path: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @property
    def rows(self) -> pa.Table:
        """The rows of the first write."""
        base = {
            "id": pa.array(["a", "b", "c"]),
            "v0": pa.array([1, 2, 3]),
            "v": pa.array([1, 2, 3]),
            "ts": pa.array([1, 1, 1]),
        }
        return pa.table({**base, **self.columns})


def _by_time(kind: str, pattern: str, **more: str) -> dict[str, str]:
    return {
        PARTITION: "p",
        **_named("TimestampBased"),
        **_timebased(kind, pattern),
        **{TIMEBASED + name.replace("_", "."): value for name, value in more.items()},
    }


def _timebased(kind: str, pattern: str) -> dict[str, str]:
    return {
        f"{TIMEBASED}timestamp.type": kind,
        f"{TIMEBASED}output.dateformat": pattern,
        f"{TIMEBASED}timezone": "UTC",
    }


def _named(name: str) -> dict[str, str]:
    return {GENERATOR: f"org.apache.hudi.keygen.{name}KeyGenerator"}


_TEXT_OF_P = {"p": ALL_RELEASES}
_OLD = frozenset({"0.15.0"})
_DECIMALS = pa.array([Decimal("1.50"), Decimal("-0.10"), None], pa.decimal128(10, 2))
_MIXED = {"c": CITIES, "p": MILLIS}

BY_TIME = (
    KeyCase(
        name="milliseconds",
        columns={"p": MILLIS},
        options=_by_time("EPOCHMILLISECONDS", "yyyy-MM-dd"),
        unreadable=_OLD,
        from_path=_TEXT_OF_P,
    ),
    KeyCase(
        name="milliseconds-slashes",
        columns={"p": MILLIS},
        options=_by_time("EPOCHMILLISECONDS", "yyyy/MM/dd"),
        from_path=_TEXT_OF_P,
    ),
    KeyCase(
        name="milliseconds-hive-encoded",
        columns={"p": MILLIS},
        options={**_by_time("EPOCHMILLISECONDS", "yyyy/MM/dd"), **HIVE, **ENCODED},
        unreadable=_OLD,
        from_path=_TEXT_OF_P,
    ),
    KeyCase(
        name="milliseconds-null",
        columns={"p": pa.array([MILLIS[0].as_py(), None, MILLIS[1].as_py()], pa.int64())},
        options=_by_time("EPOCHMILLISECONDS", "yyyyMMdd"),
        unreadable=_OLD,
        from_path=_TEXT_OF_P,
    ),
    KeyCase(
        name="seconds",
        columns={"p": SECONDS},
        options={**_by_time("UNIX_TIMESTAMP", "yyyy-MM-dd"), **HIVE},
        unreadable=_OLD,
        from_path=_TEXT_OF_P,
    ),
    KeyCase(
        name="microseconds",
        columns={"p": pa.array([one.as_py() * 1000 for one in MILLIS], pa.int64())},
        options=_by_time("EPOCHMICROSECONDS", "yyyy-MM-dd HH"),
        releases=SINCE_1_0,
        from_path=_TEXT_OF_P,
    ),
    KeyCase(
        name="days",
        columns={"p": pa.array([19753, 19722, 19753], pa.int64())},
        options=_by_time("SCALAR", "yyyy-MM-dd", timestamp_scalar_time_unit="DAYS"),
        unreadable=_OLD,
        from_path=_TEXT_OF_P,
    ),
    KeyCase(
        name="texts",
        columns={"p": pa.array(["2024-01-31 10:00:00", "2023-12-31 23:59:59", "2024-01-31 11:00:00"])},
        options=_by_time("DATE_STRING", "yyyyMMdd", input_dateformat="yyyy-MM-dd HH:mm:ss"),
        from_path=_TEXT_OF_P,
    ),
    KeyCase(
        name="texts-of-two-forms",
        columns={"p": pa.array(["2024-01-31 10:00:00", "2023-12-31", "2024-01-31 11:00:00"])},
        options=_by_time("MIXED", "yyyy/MM/dd", input_dateformat="yyyy-MM-dd HH:mm:ss,yyyy-MM-dd"),
        from_path=_TEXT_OF_P,
    ),
    KeyCase(
        name="custom-mixed",
        columns=_MIXED,
        options={
            PARTITION: "c:simple,p:timestamp",
            **_timebased("EPOCHMILLISECONDS", "yyyy-MM-dd"),
            **_named("Custom"),
        },
        unreadable=ALL_RELEASES,
    ),
    KeyCase(
        name="custom-mixed-digits",
        columns=_MIXED,
        options={
            PARTITION: "p:TIMESTAMP,c:SIMPLE",
            **_timebased("EPOCHMILLISECONDS", "yyyyMMdd"),
            **_named("Custom"),
            **HIVE,
        },
        from_path=_TEXT_OF_P,
    ),
    KeyCase(
        name="custom-mixed-slashes",
        columns=_MIXED,
        options={
            PARTITION: "c:SIMPLE,p:TIMESTAMP",
            **_timebased("EPOCHMILLISECONDS", "yyyy/MM/dd"),
            **_named("Custom"),
        },
        unreadable=ALL_RELEASES,
    ),
    KeyCase(
        name="custom-texts",
        columns={"c": CITIES, "p": DAY_TEXTS},
        options={
            PARTITION: "c:SIMPLE,p:TIMESTAMP",
            **_timebased("DATE_STRING", "yyyyMM"),
            f"{TIMEBASED}input.dateformat": "yyyy-MM-dd",
            **_named("Custom"),
        },
        from_path=_TEXT_OF_P,
    ),
)

BY_VALUE = (
    KeyCase(name="simple-long", columns={"p": pa.array([5, 6, None], pa.int64())}, options={PARTITION: "p"}),
    KeyCase(name="simple-date-hive", columns={"p": DAYS}, options={PARTITION: "p", **HIVE}),
    KeyCase(
        name="simple-timestamp", columns={"p": TIMES}, options={PARTITION: "p", **HIVE, **ENCODED}, from_path=_TEXT_OF_P
    ),
    KeyCase(name="simple-double", columns={"p": pa.array([1.5, 1e10, 1e-5])}, options={PARTITION: "p"}),
    KeyCase(name="simple-encoded", columns={"p": ODD}, options={PARTITION: "p", **ENCODED}),
    KeyCase(
        name="complex-types",
        columns={"p": pa.array([True, False, None]), "q": _DECIMALS},
        options={PARTITION: "p,q", **HIVE},
    ),
    KeyCase(
        name="complex-encoded",
        columns={"p": ODD, "q": DAYS},
        options={PARTITION: "p,q", KEY: "id,v0", **HIVE, **ENCODED},
        from_path=_TEXT_OF_P,
    ),
    KeyCase(name="complex-one-key", columns={"p": CITIES}, options={PARTITION: "p", **_named("Complex")}),
    KeyCase(name="custom-simple", columns={"p": CITIES}, options={PARTITION: "p:simple", **_named("Custom")}),
    KeyCase(
        name="custom-two-keys",
        columns={"p": pa.array([1, 2, None], pa.int32())},
        options={PARTITION: "p:SIMPLE", KEY: "id,v0", **_named("Custom")},
    ),
    KeyCase(name="none", options={**_named("Nonpartitioned")}),
    KeyCase(
        name="none-nulls-in-keys",
        columns={"id": pa.array(["a", None, ""])},
        options={KEY: "id,v0", **_named("Nonpartitioned")},
    ),
    KeyCase(name="key-timestamp", columns={"id": pa.array([JANUARY, DECEMBER, JANUARY.replace(microsecond=1)])}),
    KeyCase(name="key-date", columns={"id": pa.array([JANUARY.date(), DECEMBER.date(), dt.date(1970, 1, 1)])}),
    KeyCase(name="key-decimal", columns={"id": _DECIMALS.fill_null(Decimal("0.00"))}),
    KeyCase(name="key-double", columns={"id": pa.array([1.5, 1e10, 1e-5])}),
    KeyCase(name="key-float", columns={"id": pa.array([1.5, 1e10, 0.1], pa.float32())}),
    KeyCase(name="key-boolean", columns={"id": pa.array([True, False, True])}, options={KEY: "id,v0"}),
)
