"""Tables that users of JVM Hudi make: every query of ours is right, every write right or refused by name."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.interop.compare import ALL_META, assert_same_rows
from tests.interop.deviations import BEGIN_IS_INCLUDED
from tests.interop.foreign_tables import ForeignTable, MadeTable, made_table, made_tables
from tests.support.oracle import Oracle, OracleError

import pyhudi
from pyhudi.errors import HistoryNotRetainedError, HistoryNotSettledError, HudiError, UnsupportedFeatureError

_QUICK = {("unpartitioned-mor", "1.2.0"), ("renamed-column-cow", "1.2.0"), ("bucketed-simple", "1.2.0")}
_THOROUGH_RELEASES = {"0.15.0", "1.0.2"}
_PREFIX = "hoodie.datasource"
_AS_OF = "as.of.instant"
_BEGIN = f"{_PREFIX}.read.begin.instanttime"


def _marks(table: ForeignTable, release: str) -> list[pytest.MarkDecorator]:
    if (table.id, release) in _QUICK:
        return [pytest.mark.quick]
    return [pytest.mark.thorough] if release in _THOROUGH_RELEASES else []


@pytest.fixture
def made(
    request: pytest.FixtureRequest, tmp_path: Path, oracle_of: Callable[[str], Oracle]
) -> Iterator[tuple[ForeignTable, MadeTable]]:
    """The table that the recipe makes."""
    recipe, release = request.param
    with made_table(recipe, oracle_of(release), tmp_path) as table:
        yield recipe, table


@pytest.mark.parametrize("made", made_tables(_marks), indirect=True)
def test_a_table_that_jvm_hudi_made_is_read_and_written_right_or_refused_by_name(
    made: tuple[ForeignTable, MadeTable],
) -> None:
    recipe, table = made
    check_reads(recipe, table)
    if recipe.writes is not None or not recipe.key:
        assert_refusal(recipe, table)
        return
    for write in (upsert, delete, compact):
        write(recipe, table)
    # JVM Hudi goes on, with SQL and all its defaults.
    table.sql("UPDATE {t} SET ts = 900 WHERE ts < 3")
    check_reads(recipe, table)


def check_reads(recipe: ForeignTable, table: MadeTable) -> None:
    """The newest state, the base files alone, and every span and state of the past, by both engines."""
    ours = _open(table)
    _same(recipe, table, {}, lambda: ours.scan().to_arrow())
    _same(
        recipe,
        table,
        {f"{_PREFIX}.query.type": "read_optimized"},
        lambda: ours.scan(query_type="read_optimized").to_arrow(),
    )
    times = ours.inspect.history().to_pylist()
    for moment in {0, len(times) // 2}:
        if moment < len(times):
            instant, ended = times[moment]["instant"], times[moment]["completion_time"]
            _same(recipe, table, {_AS_OF: instant}, lambda instant=instant: ours.scan(as_of=instant).to_arrow())
            begin = str(int(ended) + (table.oracle.release in BEGIN_IS_INCLUDED))
            options = {f"{_PREFIX}.query.type": "incremental", _BEGIN: begin}
            _same(recipe, table, options, lambda ended=ended: ours.changes(ended).to_arrow())


def _same(recipe: ForeignTable, table: MadeTable, options: dict[str, str], ours: Callable[[], pa.Table]) -> None:
    """Both give the same rows, or we refuse with the error that this question may end in.

    What JVM Hudi refuses to answer has nothing to be compared with.
    """
    try:
        actual = ours()
    except _refusals(recipe, options):
        return
    try:
        expected = table.oracle.read(table.path, {**recipe.read_options, **options})
    except OracleError:
        assert options, f"{recipe.id}: JVM Hudi does not read the newest state"
        return
    left_out = recipe.not_compared if _BEGIN in options else ()
    assert_same_rows(expected, actual, ignore=left_out, hint=f"{recipe.id} {options}")


def _refusals(recipe: ForeignTable, options: dict[str, str]) -> tuple[type[HudiError], ...]:
    """What pyhudi may answer instead of rows.

    The past may be gone or not settled, and tables without meta columns do not tell changes.
    """
    allowed: list[type[HudiError]] = []
    if _AS_OF in options or _BEGIN in options:
        allowed += [HistoryNotRetainedError, HistoryNotSettledError]
    if _BEGIN in options and not recipe.has_meta_columns:
        allowed.append(UnsupportedFeatureError)
    return tuple(allowed)


def assert_refusal(recipe: ForeignTable, table: MadeTable) -> None:
    """Every write is refused by name before it changes a byte."""
    before = _bytes_of(table.path)
    rows = _data(table.oracle.read(table.path, recipe.read_options))
    attempts: list[Callable[[pyhudi.HudiTable], Any]] = [
        lambda ours: ours.upsert(rows),
        lambda ours: ours.delete(rows),
    ]
    if recipe.writes is not None:
        attempts += [lambda ours: ours.insert(rows), lambda ours: ours.insert_overwrite_table(rows)]
    for attempt in attempts:
        with pytest.raises(HudiError, match=f"(?i){recipe.writes or 'key'}"):
            attempt(pyhudi.HudiTable.for_path(str(table.path)))
    assert _bytes_of(table.path) == before


def upsert(recipe: ForeignTable, table: MadeTable) -> None:
    """An update of the first row and a new one in its partition."""
    before = _data(table.oracle.read(table.path, recipe.read_options))
    first = before.slice(0, 1).to_pylist()[0]
    changed = [
        {**first, recipe.price: 1000.5, "ts": 800},
        {**first, "id": 1001, "name": "new", recipe.price: 2000.5, "ts": 801},
    ]
    _open(table).upsert(pa.Table.from_pylist(changed, schema=before.schema))
    kept = [row for row in before.to_pylist() if _key(recipe, row) != _key(recipe, first)]
    _expect(recipe, table, pa.Table.from_pylist([*kept, *changed], schema=before.schema))


def delete(recipe: ForeignTable, table: MadeTable) -> None:
    """A deletion of the row that was new."""
    before = _data(table.oracle.read(table.path, recipe.read_options))
    gone = before.filter(pc.equal(before["id"], 1001))
    assert gone.num_rows == 1
    _open(table).delete(gone)
    _expect(recipe, table, before.filter(pc.not_equal(before["id"], 1001)))


def compact(recipe: ForeignTable, table: MadeTable) -> None:
    """A compaction changes no row."""
    before = _data(table.oracle.read(table.path, recipe.read_options))
    ours = _open(table)
    if ours.inspect.detail().type == "MERGE_ON_READ":
        ours.services.compact()
        _expect(recipe, table, before)


def _expect(recipe: ForeignTable, table: MadeTable, rows: pa.Table) -> None:
    assert_same_rows(rows, _data(table.oracle.read(table.path, recipe.read_options)), hint=f"{recipe.id}: JVM Hudi")
    assert_same_rows(rows, _data(_open(table).scan().to_arrow()), hint=f"{recipe.id}: pyhudi")


def _key(recipe: ForeignTable, row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in recipe.key)


def _open(table: MadeTable) -> pyhudi.HudiTable:
    return pyhudi.HudiTable.for_path(str(table.path))


def _data(rows: pa.Table) -> pa.Table:
    return rows.drop_columns([name for name in ALL_META if name in rows.column_names])


def _bytes_of(folder: Path) -> dict[str, str]:
    """Every file of the table with a hash of its bytes, but for lock files and folders."""
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }
