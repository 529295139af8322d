"""Deletes that come late or early: a late row does not bring a deleted record back while the delete is remembered."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from tests.support.tables import (
    MOR,
    SCHEMA,
    SplitEngine,
    StepClock,
    contents,
    environment,
    new_table,
    open_table,
    rehandled,
)

from pyhudi.config.option import OptionWarning
from pyhudi.errors import CorruptDataError, UnsupportedFeatureError
from pyhudi.format import tombstones
from pyhudi.format.tombstones import (
    TOMBSTONES_BYTES_MAX,
    TOMBSTONES_KEY,
    decode_tombstones,
    encode_tombstones,
    joined_tombstones,
)
from pyhudi.io.base_file import read_footer
from pyhudi.storage.memory import MemoryStorage
from pyhudi.tasks import data_file

BY_EVENT_TIME = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
REMEMBER = {"hoodie.write.tombstones.retained.hours": "24"}
WITH_MARK = pa.schema([*SCHEMA, ("_hoodie_is_deleted", pa.bool_())])
TABLES = pytest.mark.parametrize(
    ("version", "kind"), [(6, {}), (8, {}), (8, MOR), (9, {}), (9, MOR)], ids=["v6", "v8", "v8-mor", "v9", "v9-mor"]
)
DELETED, LATE, NEW = (10, True), (7, False), (12, False)


def batch(ts: int, deleted: bool, key: int = 1, note: str = "n") -> pa.Table:
    values = {"id": [key], "city": ["oslo"], "ts": [ts], "note": [note], "_hoodie_is_deleted": [deleted]}
    return pa.table(values, schema=WITH_MARK)


class Life:
    """A table, and the ordering values of record 1 after each step."""

    def __init__(self, version: int, kind: dict[str, str], *, remembers: bool = True, **options: str) -> None:
        self.storage, self.kind = MemoryStorage(), kind
        self.options = {**kind, **(REMEMBER if remembers else {}), **options}
        self.environment = environment(StepClock())
        new_table(self.storage, version=version, schema=WITH_MARK, **BY_EVENT_TIME, **kind)
        self.upsert(1, False, key=99)

    def open(self, **options: str) -> Any:
        return open_table(self.storage, env=self.environment, **{**self.options, **options})

    def upsert(self, ts: int, deleted: bool, *, key: int = 1, **options: str) -> None:
        self.open(**options).upsert(batch(ts, deleted, key))

    def after(self, *steps: tuple[int, bool]) -> list[int]:
        for step in steps:
            self.upsert(*step)
        return self.seen()

    def seen(self, key: int = 1) -> list[int]:
        assert 99 in {row[0] for row in contents(self.storage)}
        return [row[2] for row in contents(self.storage) if row[0] == key]

    def compact(self) -> None:
        if self.kind:
            self.open().services.compact()

    def footers(self) -> list[str | None]:
        paths = self.open().inspect.files().column("path").to_pylist()
        return [read_footer(self.storage, path).values.get(TOMBSTONES_KEY) for path in paths if path]


def of_index(index: str) -> dict[str, str]:
    if index != "RECORD_INDEX":
        return {"hoodie.index.type": index}
    return {"hoodie.index.type": index, "hoodie.metadata.record.index.enable": "true"}


@TABLES
def test_clustering_remembers_the_deletes_of_all_files_that_it_joins(version: int, kind: dict[str, str]) -> None:
    """In version 8 and later the two deletes of one write are remembered in two footers."""
    apart = {"hoodie.parquet.small.file.limit": "0"}
    life = Life(version, kind, **apart)
    for key in (1, 2):
        life.upsert(5, False, key=key)
    two = pa.concat_tables([batch(10, True, 1), batch(10, True, 2)])
    life.open().upsert(two)
    life.compact()

    life.open().services.cluster()

    assert life.open().inspect.files().num_rows == 1
    for key in (1, 2):
        life.upsert(7, False, key=key)
        assert life.seen(key) == []
        life.upsert(12, False, key=key)
        assert life.seen(key) == [12]


@TABLES
def test_late_row_does_not_bring_a_deleted_record_back(version: int, kind: dict[str, str]) -> None:
    life = Life(version, kind)
    assert life.after((5, False), DELETED) == []
    assert life.after(LATE) == []
    assert life.after(NEW) == [12]
    assert life.after(LATE) == [12]
    assert life.after((15, True), (14, False)) == []


@TABLES
def test_late_row_after_a_compaction_does_not_bring_a_deleted_record_back(version: int, kind: dict[str, str]) -> None:
    life = Life(version, kind)
    life.after((5, False), DELETED)
    life.compact()
    assert life.after(LATE) == []
    life.compact()
    assert life.after((9, False)) == []
    assert life.after((10, False)) == [10]  # of equal ordering values the later row counts, as elsewhere


@TABLES
def test_delete_that_comes_before_its_row_counts(version: int, kind: dict[str, str]) -> None:
    life = Life(version, kind)
    assert life.after(DELETED) == []
    assert life.after(LATE) == []
    assert life.after(NEW) == [12]


@TABLES
def test_rewrites_of_the_file_keep_what_was_deleted(version: int, kind: dict[str, str]) -> None:
    life = Life(version, kind)
    life.after((5, False), DELETED)
    for ts in (2, 3, 4):
        life.upsert(ts, False, key=99)
        life.compact()
    assert life.after(LATE) == []


@TABLES
def test_record_that_came_back_meets_late_rows_as_any_other(version: int, kind: dict[str, str]) -> None:
    life = Life(version, kind)
    life.after((5, False), DELETED, NEW)
    both = pa.concat_tables([batch(7, False), batch(3, False, key=2)])  # late and known, beside a new record
    life.open().upsert(both)
    assert life.seen() == [12]
    assert life.seen(2) == [3]


@TABLES
def test_delete_by_key_alone_is_not_remembered(version: int, kind: dict[str, str]) -> None:
    life = Life(version, kind)
    life.after((5, False))
    life.open().delete(batch(10, False))
    life.compact()
    assert life.after((3, False)) == [3]


@TABLES
def test_without_the_option_a_late_row_brings_the_record_back_as_with_jvm_hudi(
    version: int, kind: dict[str, str]
) -> None:
    life = Life(version, kind, remembers=False)
    life.after((5, False), DELETED)
    life.compact()
    assert life.after(LATE) == [7]
    assert life.footers() == [None] * len(life.footers())


@TABLES
def test_delete_is_forgotten_when_its_time_is_over(version: int, kind: dict[str, str]) -> None:
    life = Life(version, kind)
    life.after((5, False), DELETED)
    life.compact()
    assert any(life.footers())
    life.environment.clock.sleep(25 * 3600)
    life.upsert(2, False, key=99)
    life.compact()
    assert not any(life.footers())
    assert life.after(LATE) == [7]


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM"])
def test_late_rows_among_others_stay_out_whatever_the_index(index: str) -> None:
    life = Life(9, {}, **{"hoodie.index.type": index})
    keys = range(200, 260)
    life.open().upsert(pa.concat_tables([batch(5, False, key) for key in keys]))
    life.open().upsert(pa.concat_tables([batch(10, True, key) for key in keys if key % 2]))
    split = rehandled(life.open(), engine=SplitEngine())
    split.upsert(pa.concat_tables([batch(7, False, key, "late") for key in range(200, 280)]))
    found = {row[0]: row[3] for row in contents(life.storage)}
    expected = {key: "late" for key in range(200, 280) if key >= 260 or key % 2 == 0}
    assert found == {**expected, 99: "n"}


def test_partitions_remember_for_themselves() -> None:
    life = Life(9, {})
    life.after((5, False), DELETED)
    elsewhere = batch(7, False).set_column(1, "city", pa.array(["rome"]))
    life.open().upsert(elsewhere)
    assert life.seen() == [7]


@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "GLOBAL_BLOOM", "RECORD_INDEX"])
@pytest.mark.parametrize("city", ["oslo", "rome"])
def test_delete_in_a_log_keeps_late_rows_of_all_partitions_out_with_a_global_index(index: str, city: str) -> None:
    life = Life(9, {**MOR, "hoodie.compact.inline": "false"}, **of_index(index))
    life.after((5, False), DELETED)
    late, new = (batch(ts, False).set_column(1, "city", pa.array([city])) for ts in (7, 12))
    life.open().upsert(pa.concat_tables([late, batch(1, False, key=98)]))
    assert life.seen() == []
    assert life.seen(98) == [1]
    life.open().upsert(new)
    life.open().upsert(late)
    assert life.seen() == [12]
    life.compact()
    assert life.seen() == [12]


@pytest.mark.parametrize(
    ("version", "options"), [(6, {**MOR, **BY_EVENT_TIME}), (9, {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"})]
)
def test_tables_in_which_deletes_are_not_ordered_refuse_to_remember(version: int, options: dict[str, str]) -> None:
    storage = MemoryStorage()
    new_table(storage, version=version, schema=WITH_MARK, **options)
    with pytest.raises(UnsupportedFeatureError, match=r"tombstones\.retained\.hours needs"):
        open_table(storage, **REMEMBER).upsert(batch(5, False))


@TABLES
def test_delete_that_is_rolled_back_is_not_remembered(version: int, kind: dict[str, str]) -> None:
    life = Life(version, kind)
    life.after((5, False))
    deletion = life.open().upsert(batch(10, True))
    life.open().recovery.rollback(deletion.instant)
    assert life.after(LATE) == [7]


# -- without the option: what JVM Hudi was seen to do, as docs/late_deletes.md says ------------------------------------

COMPACT, BY_KEY = "compact", "delete"
SEEN_IN_JVM_HUDI = {
    ((5, False), (10, True), (7, False)): ([7], [7], []),
    ((5, False), (10, True), COMPACT, (7, False)): ([7], [7], [7]),
    ((5, False), (10, True), (7, False), COMPACT): ([7], [7], []),
    ((10, True), (7, False)): ([7], [7], [7]),
    ((12, False), (10, True)): ([12], [], [12]),
    ((10, False), (10, True)): ([], [], []),
    ((20, False), BY_KEY): ([], [], []),
    ((5, False), BY_KEY, (3, False)): ([3], [5], [5]),
}


@pytest.mark.parametrize("steps", SEEN_IN_JVM_HUDI, ids=str)
@pytest.mark.parametrize(
    ("version", "kind", "column"),
    [(6, {}, 0), (8, {}, 0), (9, {}, 0), (6, MOR, 1), (8, MOR, 2), (9, MOR, 2)],
    ids=["v6", "v8", "v9", "v6-mor", "v8-mor", "v9-mor"],
)
def test_late_and_early_deletes_do_what_jvm_hudi_was_seen_to_do(
    version: int, kind: dict[str, str], column: int, steps: tuple[Any, ...]
) -> None:
    life = Life(version, kind, remembers=False)
    for step in steps:
        if step == COMPACT:
            life.compact()
        elif step == BY_KEY:
            life.open().delete(batch(10, False))
        else:
            life.upsert(*step)
    assert life.seen() == SEEN_IN_JVM_HUDI[steps][column]


# -- the text in the footer -------------------------------------------------------------------------------------------


def entry(*keys: str, ts: int = 1) -> str:
    return encode_tombstones(pa.array(keys), pa.array([""] * len(keys)), [pa.array([ts] * len(keys))])


def keys_in(text: str | None) -> list[str]:
    return [key for one in decode_tombstones(text, [pa.int64()], path="f") for key in one.record_keys.to_pylist()]


def test_entries_are_joined_and_those_before_an_instant_go() -> None:
    text = joined_tombstones(None, "1", entry("a"), since="", path="f")
    text = joined_tombstones(text, "2", entry("b", "c"), since="", path="f")
    assert keys_in(text) == ["a", "b", "c"]
    assert keys_in(joined_tombstones(text, "3", None, since="2", path="f")) == ["b", "c"]
    assert joined_tombstones(text, "3", None, since="3", path="f") is None


def test_oldest_tombstones_go_first_when_they_do_not_fit() -> None:
    large = "x" * (TOMBSTONES_BYTES_MAX // 2)
    text = None
    for time in ("1", "2", "3"):
        text = joined_tombstones(text, time, large, since="", path="f")
    assert text is not None
    assert '"3"' in text
    assert '"1"' not in text


def test_more_deletes_of_one_write_than_a_footer_remembers_warn(monkeypatch: pytest.MonkeyPatch) -> None:
    life = Life(9, {})
    life.upsert(1, False)
    for module in (data_file, tombstones):
        monkeypatch.setattr(module, "TOMBSTONES_BYTES_MAX", 10)

    with pytest.warns(OptionWarning, match="more than its footer can remember"):
        assert life.after(DELETED) == []
    assert life.after(LATE) == [7]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"1": 2}', '{"1": "%"}', '{"1": "AAAA"}', "[" * 100_000])
def test_damaged_text_is_an_error_that_names_the_file(text: str) -> None:
    with pytest.raises(CorruptDataError) as caught:
        list(decode_tombstones(text, [pa.int64()], path="a/file.parquet"))
    assert caught.value.context["path"] == "a/file.parquet"
