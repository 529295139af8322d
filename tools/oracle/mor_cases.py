"""The merge-on-read tables that `make_golden_mor.py` writes: what each is for, its options, its steps."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pyarrow as pa

PAYLOADS = "org.apache.hudi.common.model"


@dataclass(frozen=True, slots=True)
class Write:
    """A commit of Spark's writer; `options` come on top of those of the table."""

    operation: str
    rows: pa.Table
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sql:
    """Statements over the table, which is registered as `t` with its path; `{last}` is the last instant."""

    name: str
    statements: Sequence[str]


@dataclass(frozen=True, slots=True)
class KillLast:
    """The last delta commit becomes one that was killed just before its completion: its files stay, uncompleted."""

    name: str = "kill"


Step = Write | Sql | KillLast


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A table. `versions` are the table versions it is written in.

    `doubts` says of which questions real Hudi's answer is known to be wrong, and why; keys are like `v6 as-of-3`.
    """

    name: str
    about: str
    steps: Sequence[Step]
    options: Mapping[str, str] = field(default_factory=dict)
    versions: tuple[int, ...] = (6, 8, 9)
    doubts: Mapping[str, str] = field(default_factory=dict)

    def options_of(self, name: str) -> dict[str, str]:
        """What every write of the table is given."""
        return {
            "hoodie.table.name": name.replace("-", "_"),
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "part",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.metadata.enable": "false",
            "hoodie.compact.inline": "false",
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.index.bloom.num_entries": "100",
            "hoodie.embed.timeline.server": "false",
            "hoodie.write.markers.type": "DIRECT",
            **self.options,
        }


# ---------------------------------------------------------------------------------------------------------- rows

WIDE = pa.schema(
    [
        ("id", pa.string()),
        ("part", pa.string()),
        ("ts", pa.int32()),
        ("count", pa.int64()),
        ("fare", pa.float64()),
        ("price", pa.decimal128(20, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("day", pa.date32()),
        ("note", pa.string()),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.string())),
        ("place", pa.struct([("x", pa.int32()), ("name", pa.string())])),
        ("extras", pa.map_(pa.string(), pa.int64())),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)


def wide(*versions: tuple[int, int], deleted: bool = False, nulls: bool = False, says: str = "") -> pa.Table:
    """A row of every type for each (number of the key, ordering value). `nulls` empties the data columns."""
    rows = [_wide_row(number, ts, deleted=deleted, nulls=nulls, says=says) for number, ts in versions]
    return pa.Table.from_pylist(rows, schema=WIDE)


def _wide_row(number: int, ts: int, *, deleted: bool, nulls: bool, says: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": f"k{number:02}",
        "part": "abc"[number % 3],
        "ts": ts,
        "_hoodie_is_deleted": deleted,
    }
    if nulls:
        return {**dict.fromkeys(WIDE.names), **row}
    return {
        **row,
        "count": (number - 5) * 10_000_000_000 + ts,
        "fare": number + ts / 100,
        "price": Decimal(number * 100_000_000_000_00 - ts).scaleb(-2),
        "at": dt.datetime(1969, 12, 31, tzinfo=dt.UTC) + dt.timedelta(hours=number, microseconds=ts),
        "day": dt.date(1969, 12, 25) + dt.timedelta(days=number),
        "note": f"{says or 'row'} {number} at {ts}" + (" Zürich" if number % 4 == 0 else ""),
        "raw": bytes([number, ts % 256, 0]),
        "tags": [f"tag{i}" for i in range(number % 3)],
        "place": None if number % 5 == 4 else {"x": ts, "name": f"place {number}"},
        "extras": [(f"e{i}", ts + i) for i in range(number % 2 + 1)],
    }


def narrow(
    *versions: tuple[int, Any], ts: pa.DataType | None = None, deleted: bool | None = False, says: str = "row"
) -> pa.Table:
    """A key, a partition, an ordering value of the given type, a number and a text for each (key, value)."""
    numbers = [number for number, _ in versions]
    columns = {
        "id": [f"k{number:02}" for number in numbers],
        "part": ["ab"[number % 2] for number in numbers],
        # Not a long: 1.0.2 cannot compare one with the int 0 of the delete operation.
        "ts": pa.array([value for _, value in versions], ts or pa.int32()),
        "fare": [number / 4 for number in numbers],
        "note": [f"{says} {number}" for number in numbers],
    }
    if deleted is not None:
        columns["_hoodie_is_deleted"] = pa.array([deleted] * len(numbers))
    return pa.table(columns)


def at(ts: Any, numbers: Iterable[int]) -> list[tuple[int, Any]]:
    """The same ordering value for several keys."""
    return [(number, ts) for number in numbers]


def joined(*tables: pa.Table) -> pa.Table:
    """Rows of one commit."""
    return pa.concat_tables(tables)


# --------------------------------------------------------------------------------------------------------- lives


def life() -> list[Step]:
    """Every way in which two versions of a key can meet: base or log, lower, equal or higher, row or delete."""
    return [
        Write("insert", wide(*at(10, range(12)), says="first")),
        Write(
            "upsert",
            joined(
                wide(*at(20, range(6)), says="second"),
                wide((6, 5), says="lower than the base file's"),
                wide((7, 10), says="equal to the base file's"),
                wide((11, 20), nulls=True),
            ),
        ),
        Write(
            "upsert",
            joined(
                wide((0, 15), says="between base and log"),
                wide((1, 20), says="equal to the log's"),
                wide((2, 30), says="third"),
                wide(*at(10, range(12, 15)), says="inserted later"),
            ),
        ),
        Write("delete", wide((4, 0), (8, 0))),
        Write("upsert", wide((5, 25), (9, 5), (2, 25), (10, 10), (3, 15), deleted=True)),
        Write(
            "upsert",
            joined(
                wide((4, 5), (8, 20), (5, 22), (10, 11), says="again"),
                wide((15, 10), says="inserted last"),
            ),
        ),
        Write("upsert", wide((13, 12), (4, 3), (0, 20), says="last")),
    ]


def short_life() -> list[Step]:
    """Insert, two upserts with late rows, a delete, a re-insert, over a narrow table."""
    return [
        Write("insert", narrow(*at(10, range(8)), says="first")),
        Write("upsert", narrow((0, 20), (1, 20), (2, 5), (3, 10), says="second")),
        Write("upsert", narrow((0, 15), (1, 20), (8, 10), says="third")),
        Write("delete", narrow((4, 0), (1, 0), (5, 0))),
        Write("upsert", narrow((1, 15), (4, 5), (9, 10), says="last")),
    ]


def ordered_life(kind: pa.DataType, value: Callable[[int], Any], *, flagged: bool, again: bool) -> list[Step]:
    """Lower, equal and higher ordering values of a type.

    `flagged`: with deletes by `_hoodie_is_deleted`; `again`: with a row again after the delete operation. Some releases
    fail at either.
    """

    def rows(*versions: tuple[int, int], deleted: bool = False, says: str = "row") -> pa.Table:
        return narrow(*[(number, value(ts)) for number, ts in versions], ts=kind, deleted=deleted, says=says)

    deletes = [Write("upsert", rows((4, 9), (5, 101), (0, 15), deleted=True))] if flagged else []
    return [
        Write("insert", rows(*at(10, range(7)), says="first")),
        Write("upsert", rows((0, 20), (1, 100), (2, 9), (3, 10), says="second")),
        Write("upsert", rows((0, 11), (1, 101), (7, 10), says="third")),
        *deletes,
        Write("delete", rows((6, 0))),
        Write("upsert", rows((3, 11), *([(6, 5)] if again else []), says="last")),
    ]


def compacted(*, pending: bool) -> list[Step]:
    """Logs, a compaction, logs; then a plan that nobody has run yet, and logs over it."""
    now = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    planned = {"hoodie.compact.schedule.inline": "true", "hoodie.compact.inline.max.delta.commits": "1"}
    steps: list[Step] = [
        Write("insert", narrow(*at(10, range(10)), says="first")),
        Write("upsert", narrow((0, 20), (1, 20), (2, 5), (3, 20), says="second")),
        Write("upsert", narrow((4, 30), (10, 10), says="third"), now),
        Write("upsert", joined(narrow((0, 15), (1, 30), says="fourth"), narrow((3, 40), deleted=True))),
    ]
    if not pending:
        return [*steps, Write("delete", narrow((5, 0)))]
    return [
        *steps,
        Write("upsert", narrow((6, 30), (7, 5), says="fifth"), planned),
        Write("upsert", narrow((0, 25), (6, 35), (3, 50), says="sixth")),
        Write("delete", narrow((8, 0))),
        Write("upsert", narrow((1, 25), (8, 1), (11, 10), says="last")),
    ]


def rolled_back() -> list[Step]:
    """The last write undone by a procedure, and one that was killed undone by the write after it."""
    return [
        Write("insert", narrow(*at(10, range(6)), says="first")),
        Write("upsert", narrow((0, 20), (1, 20), says="second")),
        Write("upsert", narrow((0, 30), (2, 30), (6, 10), says="rolled back")),
        Sql("rollback", ["CALL rollback_to_instant(table => 't', instant_time => '{last}')"]),
        Write("upsert", narrow((1, 40), (3, 40), says="third")),
        *killed(),
        # The killed writer's markers are gone already, so its files must be found by listing.
        Write("upsert", narrow((4, 60), (2, 25), says="fourth"), {"hoodie.rollback.using.markers": "false"}),
        Write("upsert", narrow((5, 70), says="last")),
    ]


def killed() -> list[Step]:
    """A write that died with all its files written."""
    return [Write("upsert", narrow((1, 50), (4, 50), (8, 10), says="killed")), KillLast()]


def never_undone() -> list[Step]:
    """A killed write that nobody has rolled back yet."""
    return [
        Write("insert", narrow(*at(10, range(6)), says="first")),
        Write("upsert", narrow((0, 20), (1, 20), says="second")),
        *killed(),
    ]


def orphaned() -> list[Step]:
    """A killed write whose rollback found no markers: its instant is gone, its files are still there."""
    return [*never_undone(), Write("upsert", narrow((4, 60), (2, 25), says="last"))]


def by_bucket() -> list[Step]:
    """Inserts and updates that a bucket index sends to the groups of their hashes."""
    return [
        Write("upsert", narrow(*at(10, range(8)), says="first")),
        Write("upsert", narrow((0, 20), (1, 5), (8, 10), (9, 10), says="second")),
        Write("upsert", joined(narrow((0, 15), (2, 30), (10, 10), says="third"), narrow((9, 20), deleted=True))),
        Write("delete", narrow((3, 0))),
        Write("upsert", narrow((3, 5), (9, 15), says="last")),
    ]


def partial() -> list[Step]:
    """Rows of which only some columns are written, over base rows, over one another, over and under whole rows."""

    def merge(name: str, source: str, *columns: str) -> Sql:
        assignments = ", ".join(f"t.{column} = s.{column}" for column in columns)
        # Without the partition column in the source, real Hudi matches nothing and says nothing.
        merge_into = f"MERGE INTO t USING (SELECT {source}) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET {assignments}"
        return Sql(name, ["SET hoodie.spark.sql.merge.into.partial.updates=true", merge_into])

    return [
        Write("insert", narrow(*at(10, range(6)), says="first", deleted=None)),
        merge("merge fare", "'k00' id, 'a' part, 20 ts, 99.5D fare", "fare", "ts"),
        merge("merge note", "'k00' id, 'a' part, 30 ts, 'merged' note", "note", "ts"),
        merge("merge late", "'k00' id, 'a' part, 25 ts, 'late' note", "note", "ts"),
        Write("upsert", narrow((1, 20), (3, 20), says="whole", deleted=None)),
        merge("merge over whole", "'k01' id, 'b' part, 30 ts, -1D fare", "fare", "ts"),
        merge("merge null", "'k02' id, 'a' part, 30 ts, CAST(NULL AS STRING) note", "note", "ts"),
        merge("merge before whole", "'k04' id, 'a' part, 20 ts, -2D fare", "fare", "ts"),
        merge("merge lower than base", "'k05' id, 'b' part, 5 ts, -3D fare", "fare", "ts"),
        Write("upsert", narrow((4, 15), (2, 40), says="whole", deleted=None)),
    ]


def with_nulls() -> list[Step]:
    """Rows with holes, for payloads that fill them from the older version."""

    def rows(*versions: tuple[int, int, float | None, str | None]) -> pa.Table:
        ids, orders, fares, notes = zip(*versions, strict=True)
        return pa.table(
            {
                "id": [f"k{number:02}" for number in ids],
                "part": ["ab"[number % 2] for number in ids],
                "ts": pa.array(orders, pa.int32()),
                "fare": pa.array(fares, pa.float64()),
                "note": pa.array(notes, pa.string()),
            }
        )

    return [
        Write("insert", rows(*[(number, 10, number / 4, f"first {number}") for number in range(8)])),
        Write("upsert", rows((0, 20, None, "second"), (1, 20, 1.5, None), (2, 5, None, "late"), (3, 5, -3.0, None))),
        Write("upsert", rows((0, 30, 9.5, None), (1, 15, None, "between"), (2, 5, -2.0, None), (4, 20, None, None))),
        Write("delete", rows((5, 0, None, None))),
        Write("upsert", rows((5, 5, 5.5, None), (0, 25, None, "late again"), (8, 10, None, "new"))),
    ]


def of_dms() -> list[Step]:
    """Rows of AWS DMS: `Op` says insert, update or delete."""

    def rows(*versions: tuple[int, int, str]) -> pa.Table:
        return pa.table(
            {
                "id": [f"k{number:02}" for number, _, _ in versions],
                "part": ["ab"[number % 2] for number, _, _ in versions],
                "ts": pa.array([ts for _, ts, _ in versions], pa.int64()),
                "note": [f"{op} {number} at {ts}" for number, ts, op in versions],
                "Op": [op for _, _, op in versions],
            }
        )

    return [
        Write("insert", rows(*[(number, 10, "I") for number in range(6)])),
        Write("upsert", rows((0, 20, "U"), (1, 20, "D"), (2, 5, "U"), (3, 5, "D"))),
        Write("upsert", rows((1, 30, "I"), (0, 25, "D"), (4, 20, "U"), (6, 10, "I"))),
        Write("upsert", rows((0, 15, "U"), (4, 15, "D"))),
    ]


def of_debezium() -> list[Step]:
    """Rows of Debezium's Postgres connector, flattened: `_event_lsn` orders, a marker stands for kept values."""

    def rows(*versions: tuple[int, int, str, str]) -> pa.Table:
        return pa.table(
            {
                "id": [f"k{number:02}" for number, *_ in versions],
                "part": ["ab"[number % 2] for number, *_ in versions],
                "_event_lsn": pa.array([lsn for _, lsn, _, _ in versions], pa.int64()),
                "_change_operation_type": [op for _, _, op, _ in versions],
                "note": [note for *_, note in versions],
                "fare": [lsn / 2 for _, lsn, _, _ in versions],
            }
        )

    kept = "__debezium_unavailable_value"
    return [
        Write("insert", rows(*[(number, 10, "c", f"first {number}") for number in range(6)])),
        Write("upsert", rows((0, 20, "u", kept), (1, 20, "d", ""), (2, 5, "u", "late"), (3, 5, "d", ""))),
        Write("upsert", rows((0, 30, "u", "third"), (1, 30, "c", "again"), (4, 20, "u", kept), (6, 10, "c", "new"))),
        Write("upsert", rows((0, 40, "u", kept), (4, 15, "d", ""))),
    ]


def evolved() -> list[Step]:
    """A column more in the third commit, an integer column of more bits in the fourth."""

    def rows(*versions: tuple[int, int], more: bool = False, long: bool = False) -> pa.Table:
        table = narrow(*versions, deleted=None, says="more" if more else "less")
        numbers = pa.array([number for number, _ in versions], pa.int64() if long else pa.int32())
        table = table.append_column("number", numbers)
        if not more:
            return table
        return table.append_column("added", pa.array([f"added {number}" for number, _ in versions]))

    return [
        Write("insert", rows(*at(10, range(6)))),
        Write("upsert", rows((0, 20), (1, 20))),
        Write("upsert", rows((0, 30), (2, 30), (6, 10), more=True)),
        Write("upsert", rows((3, 40), (0, 25), (7, 10), more=True, long=True)),
    ]


def _composite() -> list[Step]:
    def rows(*versions: tuple[int, int], says: str = "row") -> pa.Table:
        table = narrow(*versions, says=says)
        return table.append_column("region", pa.array([number % 2 for number, _ in versions], pa.int32()))

    return [
        Write("insert", rows(*at(10, range(6)), says="first")),
        Write("upsert", rows((0, 20), (1, 5), (6, 10), says="second")),
        Write("delete", rows((2, 0), (0, 0))),
        Write("upsert", rows((2, 5), (3, 30), says="last")),
    ]


def _several_ordering_fields() -> list[Step]:
    def rows(*versions: tuple[int, int, str], deleted: bool = False) -> pa.Table:
        table = narrow(*[(number, ts) for number, ts, _ in versions], deleted=deleted)
        return table.append_column("second", pa.array([second for *_, second in versions]))

    return [
        Write("insert", rows(*[(number, 10, "m") for number in range(7)])),
        Write("upsert", rows((0, 10, "n"), (1, 10, "a"), (2, 11, "a"), (3, 9, "z"), (4, 10, "m"))),
        Write("upsert", rows((0, 10, "a"), (1, 10, "z"), (5, 10, "a"), deleted=True)),
        Write("upsert", rows((1, 10, "y"), (7, 1, "a"))),
    ]


def _null_ordering() -> list[Step]:
    return [
        Write("insert", narrow(*at(10, range(5)), (5, None), (6, None), says="first")),
        Write("upsert", narrow((0, None), (1, 20), (2, -5), (5, None), (6, -5), says="second")),
        Write("upsert", narrow((0, 5), (1, None), (5, 1), says="third")),
    ]


# --------------------------------------------------------------------------------------------------------- cases


def cases() -> list[Case]:
    """All tables, the ones that most other code needs first."""
    return [
        Case(
            name="basic",
            about="default merging: all types, rows and deletes that are lower, equal, higher",
            steps=life(),
        ),
        Case(
            name="pending",
            about="a compaction, logs, a plan that has not run, logs over it",
            steps=compacted(pending=True),
        ),
        Case(
            name="rolled-back",
            about="writes undone by a procedure and by the next writer",
            steps=rolled_back(),
            doubts={
                "v6 as-of-3": "the log is read up to the rollback's block, which is younger than the commit after it"
            },
        ),
        Case(
            name="consistent",
            about="consistent hashing: slices without base files",
            steps=by_bucket(),
            options={
                "hoodie.index.type": "BUCKET",
                "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
                "hoodie.bucket.index.num.buckets": "2",
            },
        ),
        Case(
            name="parquet-blocks",
            about="Parquet data blocks",
            steps=life(),
            options={"hoodie.logfile.data.block.format": "parquet"},
        ),
        Case(
            name="commit-time",
            about="an ordering field that does not decide: COMMIT_TIME_ORDERING",
            steps=life(),
            options={"hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"},
            versions=(8, 9),
        ),
        Case(
            name="default-payload",
            about="DefaultHoodieRecordPayload, which is event time in version 6",
            steps=life(),
            options={"hoodie.datasource.write.payload.class": f"{PAYLOADS}.DefaultHoodieRecordPayload"},
            versions=(6,),
        ),
        Case(
            name="latest-payload",
            about="OverwriteWithLatestAvroPayload by name, the default of version 6",
            steps=short_life(),
            options={"hoodie.datasource.write.payload.class": f"{PAYLOADS}.OverwriteWithLatestAvroPayload"},
            versions=(8, 9),
        ),
        Case(name="compacted", about="a compaction, and logs over it", steps=compacted(pending=False)),
        Case(name="killed", about="a killed write that nobody has rolled back", steps=never_undone()),
        Case(name="orphaned", about="files of a write that is on the timeline no more", steps=orphaned()),
        Case(name="partial", about="MERGE INTO: blocks with some of the columns", steps=partial(), versions=(8, 9)),
        Case(
            name="bucket",
            about="bucket index of fixed size",
            steps=by_bucket(),
            options={"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"},
        ),
        Case(
            name="unordered",
            about="no ordering field",
            steps=short_life(),
            options={"hoodie.datasource.write.precombine.field": ""},
            versions=(8, 9),
        ),
        Case(name="evolved", about="a column added, another one widened between log commits", steps=evolved()),
        Case(
            name="composite",
            about="not partitioned, a key of two fields",
            steps=_composite(),
            options={
                "hoodie.datasource.write.recordkey.field": "region,id",
                "hoodie.datasource.write.partitionpath.field": "",
                "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
            },
        ),
        *_payload_cases(),
        *_ordering_cases(),
        Case(
            name="null-ordering",
            about="rows without an ordering value, which 0.15.0 and 1.0.2 refuse",
            steps=_null_ordering(),
            versions=(9,),
        ),
        Case(
            name="log-compacted",
            about="logs replaced by one log",
            steps=short_life(),
            options={
                "hoodie.log.compaction.enable": "true",
                "hoodie.log.compaction.inline": "true",
                "hoodie.log.compaction.blocks.threshold": "2",
                "hoodie.compact.inline.max.delta.commits": "100",
            },
        ),
    ]


def _payload_cases() -> list[Case]:
    def case(name: str, payload: str, steps: Sequence[Step], ordering: str = "ts") -> Case:
        options = {
            "hoodie.datasource.write.payload.class": f"{PAYLOADS}.{payload}",
            "hoodie.datasource.write.precombine.field": ordering,
        }
        return Case(name=name, about=payload.rpartition(".")[2], steps=steps, options=options)

    return [
        case("partial-update", "PartialUpdateAvroPayload", with_nulls()),
        case("non-defaults", "OverwriteNonDefaultsWithLatestAvroPayload", with_nulls()),
        case("dms", "AWSDmsAvroPayload", of_dms()),
        case("debezium", "debezium.PostgresDebeziumAvroPayload", of_debezium(), ordering="_event_lsn"),
    ]


def _ordering_cases() -> list[Case]:
    start = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)

    def case(
        name: str,
        kind: pa.DataType,
        value: Callable[[int], Any],
        *,
        versions: Sequence[int],
        flagged: bool = True,
        doubtful: Sequence[int] = (),
    ) -> list[Case]:
        return [
            Case(
                name=f"by-{name}",
                about=f"ordering values of type {name}",
                # 1.0.2 cannot compare the delete operation's int 0 with values of another type.
                steps=ordered_life(kind, value, flagged=flagged, again=version != 8),
                options={
                    "hoodie.datasource.write.partitionpath.field": "",
                    "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
                    "hoodie.datasource.write.payload.class": f"{PAYLOADS}.DefaultHoodieRecordPayload",
                },
                versions=(version,),
                doubts={f"v{version} {question}": by_class for question in after if version in doubtful},
            )
            for version in versions
        ]

    every = (6, 8, 9)
    by_class = "a delete beats a higher log version, because real Hudi finds their ordering values of unlike classes"
    after = ("as-of-3", "as-of-4", "snapshot", "changes-first-to-middle", "changes-first-to-head")
    return [
        *case("long", pa.int64(), int, versions=every),
        *case("string", pa.string(), lambda n: f"{n:03}", versions=every, doubtful=(6, 8)),
        *case("timestamp", pa.timestamp("us", "UTC"), lambda n: start + dt.timedelta(hours=n), versions=every),
        *case("double", pa.float64(), lambda n: n - 10.5, versions=every),
        # Delete blocks: dates cannot be written by 1.x, decimals not be read back by 1.0.2.
        *case("date", pa.date32(), lambda n: start.date() + dt.timedelta(days=n), versions=(6,), doubtful=(6,)),
        *case("date", pa.date32(), lambda n: start.date() + dt.timedelta(days=n), flagged=False, versions=(8, 9)),
        *case("decimal", pa.decimal128(20, 4), lambda n: Decimal(n).scaleb(-3), versions=(6, 9), doubtful=(6,)),
        *case("decimal", pa.decimal128(20, 4), lambda n: Decimal(n).scaleb(-3), flagged=False, versions=(8,)),
        Case(
            name="by-two-fields",
            about="several ordering fields",
            steps=_several_ordering_fields(),
            options={"hoodie.datasource.write.precombine.field": "ts,second"},
            versions=(9,),
        ),
    ]
