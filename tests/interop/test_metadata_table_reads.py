"""Metadata tables that JVM Hudi wrote: they list what the store has, with the statistics of the footers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.compare import assert_same_rows
from tests.interop.foreign_tables import ForeignTable, MadeTable, made_table, made_tables
from tests.support.oracle import Oracle

import pyhudi
from pyhudi.format.file_names import parse_data_file
from pyhudi.metadata_table.lister import metadata_lister
from pyhudi.storage.local import LocalStorage
from pyhudi.table.lister import list_data_files
from pyhudi.table.metadata_partitions import FILES
from pyhudi.table.state import load_table

_QUICK = {"updated-mor", "archived-mor"}
_SETTINGS = {"hoodie.metadata.enable": "true"}


def _marks(table: ForeignTable, release: str) -> list[pytest.MarkDecorator]:
    return [] if table.id in _QUICK else [pytest.mark.thorough]


@pytest.fixture
def made(
    request: pytest.FixtureRequest, tmp_path: Path, oracle_of: Callable[[str], Oracle]
) -> Iterator[tuple[ForeignTable, MadeTable]]:
    """The table that the recipe makes."""
    recipe, release = request.param
    with made_table(recipe, oracle_of(release), tmp_path, _SETTINGS) as table:
        yield recipe, table


@pytest.mark.parametrize("made", made_tables(_marks), indirect=True)
def test_metadata_table_of_jvm_hudi_lists_what_the_store_has(made: tuple[ForeignTable, MadeTable]) -> None:
    recipe, table = made
    storage = LocalStorage(table.path)
    state = load_table(storage)
    assert FILES in state.config.metadata_partitions
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lister = metadata_lister(state, True)
        assert lister is not None
        listed = {(info.path, info.size) for info in lister.table()}
    stored = {(info.path, info.size) for info in list_data_files(storage) if parse_data_file(info.name) is not None}
    assert {one for one in listed if parse_data_file(one[0].rpartition("/")[2])} == stored
    for path in {path.rpartition("/")[0] for path, _ in stored}:
        again = metadata_lister(state, True)
        assert again is not None
        assert {(info.path, info.size) for info in again.partition(path)} == {
            one for one in listed if one[0].rpartition("/")[0] == path
        }
    found = pyhudi.HudiTable.for_path(str(table.path)).inspect.metadata_check()
    assert found.to_pylist() == []  # statistics are those of the footers, too
    assert_same_rows(_rows(table.path, "false"), _rows(table.path, "true"), hint=recipe.id)


def _rows(path: Path, enabled: str) -> pa.Table:
    return pyhudi.HudiTable.for_path(str(path), hudi_options={"hoodie.metadata.enable": enabled}).scan().to_arrow()
