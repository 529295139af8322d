"""By which rule a write merges: the table's own, and the options' where the table leaves it to them.

JVM Hudi 0.15.0 stores no payload class in a copy-on-write table, and no other property that says how versions merge.
"""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.tables import MOR, contents, new_table, open_table, rows

import pyhudi
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.format.properties import format_properties, parse_properties
from pyhudi.format.schema.meta_columns import META_COLUMNS
from pyhudi.storage.memory import MemoryStorage

GOLDEN = Path(__file__).parents[2] / "golden"
PROPERTIES = ".hoodie/hoodie.properties"
PAYLOAD = "hoodie.datasource.write.payload.class"
MODEL = "org.apache.hudi.common.model."
EVENT_TIME_STRATEGY = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
BY_EVENT_TIME = pytest.mark.parametrize(
    "options",
    [
        {PAYLOAD: f"{MODEL}DefaultHoodieRecordPayload"},
        {"hoodie.compaction.payload.class": "DefaultHoodieRecordPayload"},
        {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"},
        {"hoodie.write.record.merge.strategy.id": EVENT_TIME_STRATEGY},
    ],
    ids=["payload", "alias", "mode", "strategy"],
)


def table_of_hudi_0_15(*, ordering: bool = True) -> MemoryStorage:
    """An empty copy-on-write table with the properties that JVM Hudi 0.15.0 was seen to write."""
    storage = MemoryStorage()
    new_table(storage, version=6)
    left_out = {"hoodie.compaction.payload.class", "hoodie.compaction.record.merger.strategy"}
    left_out |= set() if ordering else {"hoodie.table.precombine.field"}
    values = parse_properties(storage.read(PROPERTIES), path=PROPERTIES)
    kept = {key: value for key, value in values.items() if key not in left_out}
    storage.put(PROPERTIES, format_properties(kept, comment=""))
    return storage


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, "late"), ({PAYLOAD: f"{MODEL}DefaultHoodieRecordPayload"}, "stored")],
    ids=["no rule", "event time"],
)
def test_table_that_jvm_hudi_0_15_0_wrote_goes_by_the_options_of_the_write(
    options: dict[str, str], expected: str, tmp_path: Path
) -> None:
    with tarfile.open(GOLDEN / "v6-hive.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = [found.parent for found in tmp_path.rglob(".hoodie") if "metadata" not in found.parts]
    before = pyhudi.HudiTable.for_path(str(folder)).scan().to_arrow()
    row = before.drop_columns([name for name in before.column_names if name in META_COLUMNS]).slice(0, 1)
    late = pc.subtract(row["ts"], pa.scalar(1, pa.int64()).cast(row["ts"].type))
    place = row.column_names.index("ts")

    pyhudi.HudiTable.for_path(str(folder)).upsert(
        row.set_column(place, row.schema.field("ts"), late), hudi_options=options
    )

    after = pyhudi.HudiTable.for_path(str(folder)).scan().to_arrow()
    found = after.filter(pc.equal(after["_hoodie_record_key"], before["_hoodie_record_key"][0]))
    assert found["ts"].to_pylist() == (late if expected == "late" else row["ts"]).to_pylist()
    assert after.num_rows == before.num_rows


def upsert(storage: MemoryStorage, *values: Any, **options: str) -> set[Any]:
    open_table(storage).upsert(rows(*values), hudi_options=options)
    return contents(storage)


@BY_EVENT_TIME
def test_write_by_event_time_keeps_the_greater_ordering_value_where_the_table_names_no_rule(
    options: dict[str, str],
) -> None:
    storage = table_of_hudi_0_15()
    upsert(storage, (1, "oslo", 10, "stored"), **options)

    assert upsert(storage, (1, "oslo", 5, "late"), **options) == {(1, "oslo", 10, "stored")}
    assert upsert(storage, (1, "oslo", 11, "new"), **options) == {(1, "oslo", 11, "new")}


def test_write_without_a_rule_overwrites_where_the_table_names_none() -> None:
    storage = table_of_hudi_0_15()
    upsert(storage, (1, "oslo", 10, "stored"), **{PAYLOAD: "DefaultHoodieRecordPayload"})

    assert upsert(storage, (1, "oslo", 5, "late")) == {(1, "oslo", 5, "late")}


def test_write_names_the_ordering_field_that_the_table_does_not() -> None:
    storage = table_of_hudi_0_15(ordering=False)
    ordered = {"hoodie.datasource.write.precombine.field": "ts"}
    assert upsert(storage, (1, "oslo", 10, "a"), (1, "oslo", 5, "b"), **ordered) == {(1, "oslo", 10, "a")}
    by_event_time = {**ordered, PAYLOAD: "DefaultHoodieRecordPayload"}
    assert upsert(storage, (1, "oslo", 5, "late"), **by_event_time) == {(1, "oslo", 10, "a")}
    assert upsert(storage, (1, "oslo", 5, "late"), **ordered) == {(1, "oslo", 5, "late")}


def test_write_by_event_time_without_any_ordering_field_is_refused() -> None:
    storage = table_of_hudi_0_15(ordering=False)
    with pytest.raises(ConfigError, match=r"EVENT_TIME_ORDERING needs hoodie\.table\.ordering\.fields"):
        upsert(storage, (1, "oslo", 10, "a"), **{PAYLOAD: "DefaultHoodieRecordPayload"})


def test_write_with_another_ordering_field_than_the_tables_is_refused() -> None:
    storage = table_of_hudi_0_15()
    with pytest.raises(ConfigError, match=r"hoodie\.table\.ordering\.fields is 'id', the table has 'ts'"):
        upsert(storage, (1, "oslo", 10, "a"), **{"hoodie.datasource.write.precombine.field": "id"})


def test_partial_updates_by_payload_class_fill_where_the_table_names_no_rule() -> None:
    storage = table_of_hudi_0_15()
    partial = {PAYLOAD: "PartialUpdateAvroPayload"}
    upsert(storage, (1, "oslo", 10, "stored"), **partial)

    table = rows((1, "oslo", 11, "x"))
    without_note = table.set_column(3, "note", rows((1, "oslo", 11, None)).column("note"))  # type: ignore[arg-type]
    open_table(storage).upsert(without_note, hudi_options=partial)

    assert contents(storage) == {(1, "oslo", 11, "stored")}


@pytest.mark.parametrize(
    ("version", "made_with"), [(6, MOR), (8, {}), (8, MOR), (9, {}), (9, MOR)], ids=lambda value: str(value)[:4]
)
@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"])
def test_payload_class_that_contradicts_the_table_is_refused_with_both_named(
    version: int, made_with: dict[str, str], mode: str
) -> None:
    storage = MemoryStorage()
    new_table(storage, version=version, **made_with, **{"hoodie.record.merge.mode": mode})
    by_event_time = "DefaultHoodieRecordPayload"
    by_commit_time = "OverwriteWithLatestAvroPayload"
    same, other = (by_event_time, by_commit_time) if mode.startswith("EVENT") else (by_commit_time, by_event_time)
    table = open_table(storage, **made_with)
    table.upsert(rows((1, "oslo", 10, "a")), hudi_options={PAYLOAD: same})

    with pytest.raises(ConfigError, match=rf"{other}', the table has 'the rule {mode}'") as caught:
        table.upsert(rows((1, "oslo", 5, "b")), hudi_options={PAYLOAD: other})

    assert caught.value.context["keys"] == (PAYLOAD,)
    assert contents(storage) == {(1, "oslo", 10, "a")}


@pytest.mark.parametrize("made_with", [{}, MOR], ids=["cow", "mor"])
@pytest.mark.parametrize(
    ("version", "rule", "kept"),
    [
        (6, {}, 10),
        (8, {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}, 5),
        (8, {PAYLOAD: "OverwriteWithLatestAvroPayload"}, 5),
        (8, {PAYLOAD: "OverwriteNonDefaultsWithLatestAvroPayload"}, 10),
        (9, {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}, 5),
    ],
    ids=["v6", "v8-mode", "v8-latest", "v8-payload-merges", "v9"],
)
def test_batch_with_a_key_twice_by_commit_time_keeps_the_row_that_jvm_hudi_keeps(
    version: int, rule: dict[str, str], kept: int, made_with: dict[str, str]
) -> None:
    """As 0.15.0, 1.0.2 and 1.2.0 were seen to: only payload classes compare ordering values then."""
    storage = MemoryStorage()
    table = new_table(storage, version=version, **made_with, **rule)
    table.upsert(
        rows((1, "oslo", 10, "first"), (1, "oslo", 5, "last"), (2, "oslo", 5, "first"), (2, "oslo", 10, "last"))
    )
    assert {(row[0], row[2]) for row in contents(storage)} == {(1, kept), (2, 10)}


def test_default_other_than_null_is_refused_where_partial_updates_ignore_defaults() -> None:
    storage = MemoryStorage()
    table = new_table(storage, **MOR)
    created = (
        storage.read(PROPERTIES)
        .decode()
        .replace('["null","string"],"default":null}]}', '["string","null"],"default":"-"}]}')
    )
    storage.put(PROPERTIES, created.encode())
    for note in ("first", "-"):
        table = open_table(storage)
        table.upsert(rows((1, "oslo", 10, note)))
    ignoring = created.replace(
        "EVENT_TIME_ORDERING\n", "EVENT_TIME_ORDERING\nhoodie.table.partial.update.mode=IGNORE_DEFAULTS\n"
    )
    storage.put(PROPERTIES, ignoring.encode())

    ignores = open_table(storage)
    with pytest.raises(UnsupportedFeatureError, match=r"null the default of these columns.*note"):
        ignores.scan().to_arrow()
    with pytest.raises(UnsupportedFeatureError, match="note"):
        ignores.upsert(rows((1, "oslo", 11, "-")))
    with pytest.raises(UnsupportedFeatureError, match="note"):
        ignores.services.compact()
    base = ignores.scan(query_type="read_optimized").to_arrow()
    assert base.column("note").to_pylist() == ["first"]
