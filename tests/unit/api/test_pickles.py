"""An opened table crosses process borders as it is, or says why it cannot."""

from __future__ import annotations

import multiprocessing
import pickle
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from tests.support.tables import rehandled

import pyhudi
from pyhudi.engine.protocol import Engine
from pyhudi.errors import HudiError, UnsupportedFeatureError

SCHEMA = pa.schema([("id", pa.int64())])


def ids_of(table: pyhudi.HudiTable) -> Any:
    try:
        return sorted(table.scan(["id"]).to_arrow()["id"].to_pylist())
    except HudiError as error:
        return error


def ids_in_pickle(data: bytes) -> Any:
    try:
        return ids_of(pickle.loads(data))
    except HudiError as error:
        return error


def filled(path: str) -> pyhudi.HudiTable:
    table = pyhudi.HudiTable.create(path, schema=SCHEMA, record_key="id")
    table.insert(pa.table({"id": [1, 2]}))
    return table.refresh()


def test_pickled_table_answers_from_the_moment_when_it_was_opened(tmp_path: Path) -> None:
    table = filled(str(tmp_path))
    data = pickle.dumps(table)
    table.insert(pa.table({"id": [3]}))

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.apply(ids_in_pickle, (data,)) == [1, 2]
    again = pickle.loads(data)
    again.insert(pa.table({"id": [4]}))

    assert ids_of(again.refresh()) == [1, 2, 3, 4]
    assert again.handle.options == table.handle.options


def test_table_in_memory_pickles_within_its_process_only() -> None:
    data = pickle.dumps(filled("memory://pickles/t"))

    assert ids_in_pickle(data) == [1, 2]


def test_table_whose_services_run_on_a_session_is_not_pickled() -> None:
    of_a_session = cast("Engine", object())
    table = rehandled(filled("memory://pickles/u"), engine=of_a_session)

    with pytest.raises(UnsupportedFeatureError, match="cannot be sent to another process"):
        pickle.dumps(table)
