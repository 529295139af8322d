"""Deaths at storage effects of commits with statistics: no row is lost by them, and the next write makes them whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.support.crashes import crash_images, opened, rows
from tests.support.statistics_of_tables import statistics_known
from tests.support.table_builder import THREE_ROWS, TableBuilder

import pyhudi
from pyhudi.metadata_table.partitions.column_stats import live_paths
from pyhudi.storage.protocol import Storage
from pyhudi.table.state import load_table

_ON = {"hoodie.metadata.index.column.stats.enable": "true", "hoodie.metadata.index.partition.stats.enable": "true"}
_ALONE = {"hoodie.clean.automatic": "false", "hoodie.write.set.null.for.missing.columns": "true"}
Action = Callable[[pyhudi.HudiTable], object]


def _upsert(moment: int, **options: str) -> Action:
    return lambda table: table.upsert(rows((1, "oslo", moment, "c"), (8, "rome", moment, "c")), hudi_options=options)


def _newest(table: pyhudi.HudiTable) -> str:
    written = table.inspect.last_write()
    assert written is not None
    return written.instant


def _wider(table: pyhudi.HudiTable) -> object:
    later = pa.table([[5], ["oslo"], [4], ["d"], [7]], names=["id", "city", "ts", "note", "later"])
    return table.insert(later, hudi_options=_ALONE)


ACTIONS: dict[str, tuple[Action, Action]] = {
    "a commit that builds them": (lambda _: None, _upsert(3, **_ON, **_ALONE)),
    "a commit": (_upsert(3, **_ON), _upsert(4, **_ALONE)),
    "a new column": (_upsert(3, **_ON), _wider),
    "an overwrite": (
        _upsert(3, **_ON),
        lambda table: table.insert_overwrite(rows((5, "oslo", 4, "n")), hudi_options=_ALONE),
    ),
    "a rollback of an overwrite": (
        lambda table: table.insert_overwrite(rows((5, "oslo", 4, "n")), hudi_options={**_ON, **_ALONE}),
        lambda table: table.recovery.rollback(_newest(table)),
    ),
}


@pytest.fixture(autouse=True)
def _statistics_of_few_files_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyhudi.read.skipping.column_statistics.FILES_MIN", 1)


@pytest.mark.parametrize(
    ("name", "table"),
    [
        *((name, TableBuilder(9, "cow", has_delete_flag=True)) for name in ACTIONS),
        ("a commit", TableBuilder(6, "mor", has_delete_flag=True)),
    ],
    ids=str,
)
def test_death_at_an_effect_loses_no_row_by_statistics(table: TableBuilder, name: str) -> None:
    before, action = ACTIONS[name]
    given = table.insert(*THREE_ROWS).build()
    before(opened(given))

    for moment, image in crash_images(given, action, every=12):
        _check_rows(image, moment)

        opened(image, later=True).upsert(rows((2, "oslo", 9, "z")), hudi_options={**_ON, **_ALONE})

        _check_rows(image, moment)
        names = {path.rpartition("/")[2] for path in live_paths(load_table(image))}
        known = {payload["fileName"] for (payload,) in statistics_known(image, "column_stats").values()}
        assert names <= known, moment


def _check_rows(image: Storage, moment: str) -> None:
    whole = opened(image, **{"hoodie.enable.data.skipping": "false"}).scan().to_arrow()
    table = opened(image)
    for column in ("id", "ts", "note"):
        for value in pc.unique(whole[column]).to_pylist():
            where: Any = [(column, "==", value)]
            expected = whole.filter(pc.equal(whole[column], value))
            assert table.scan(where=where).count() == expected.num_rows, (moment, where)
