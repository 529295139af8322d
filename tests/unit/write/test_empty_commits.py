"""Writes that find nothing to write: which of them make a commit (`hoodie.allow.empty.commit`)."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping

import pyarrow as pa
import pytest
from tests.support.table_builder import TWO_GROUPS
from tests.support.tables import new_table, rows

import pyhudi
from pyhudi.errors import InvalidRequestError
from pyhudi.format.timeline.instant import InstantState

EMPTY = {"hoodie.allow.empty.commit": "true"}
NONE = {"hoodie.allow.empty.commit": "false"}
Options = Mapping[str, str] | None
Write = Callable[[pyhudi.HudiTable, Options], pyhudi.WriteResult]


def filled() -> pyhudi.HudiTable:
    table = new_table()
    table.insert(rows(*TWO_GROUPS))
    return table


def source(table: pyhudi.HudiTable, key: int) -> pa.Table:
    return table.scan(columns=table.schema.names).to_arrow().slice(0, 1).set_column(0, "id", pa.array([key], "int64"))


def joined_merge(table: pyhudi.HudiTable, options: Options) -> pyhudi.WriteResult:
    return table.merge(source(table, 77), on="id").when_matched_update_all().execute(hudi_options=options)


def merge_by_key(table: pyhudi.HudiTable, options: Options) -> pyhudi.WriteResult:
    merge = table.merge(source(table, 77), on=["id", "city"])
    return merge.when_matched_update_all().execute(hudi_options=options)


def insertion_of_stored_rows(table: pyhudi.HudiTable, options: Options) -> pyhudi.WriteResult:
    stored = table.scan(columns=table.schema.names).to_arrow()
    merge = table.merge(stored, on=["id", "city"])
    return merge.when_not_matched_insert_all().execute(hudi_options=options)


def merge_that_deletes(table: pyhudi.HudiTable, options: Options) -> pyhudi.WriteResult:
    return table.merge(source(table, 77), on=["id", "city"]).when_matched_delete().execute(hudi_options=options)


COMPUTED: Mapping[str, Write] = {
    "joined merge": joined_merge,
    "merge by key": merge_by_key,
    "insertion of stored rows": insertion_of_stored_rows,
    "merge that deletes": merge_that_deletes,
    "update": lambda table, options: table.update({"ts": 9}, [("id", "==", 77)], hudi_options=options),
    "delete": lambda table, options: table.delete_where([("id", "==", 77)], hudi_options=options),
}
GIVEN: Mapping[str, Write] = {
    name: lambda table, options, name=name: getattr(table, name)(
        table.scan(columns=table.schema.names).to_arrow().slice(0, 0), hudi_options=options
    )
    for name in ("upsert", "insert", "bulk_insert", "delete")
}


def files(table: pyhudi.HudiTable) -> set[str]:
    return {info.path for info in table.handle.state.storage.list_recursive("")}


@pytest.mark.parametrize("write", COMPUTED.values(), ids=COMPUTED)
@pytest.mark.parametrize("options", [None, NONE], ids=["default", "false"])
def test_condition_that_no_row_meets_makes_no_commit_and_leaves_no_file(write: Write, options: Options) -> None:
    table = filled()
    before, count = files(table), table.inspect.history().num_rows

    result = write(table, options)

    assert (result.has_committed, result.files) == (False, 0)
    assert "without a commit" in repr(result)
    assert pickle.loads(pickle.dumps(result)) == result
    for time in ("instant", "completion_time"):
        with pytest.raises(InvalidRequestError, match="has_committed"):
            getattr(result, time)
    assert files(table) == before
    assert table.inspect.history().num_rows == count


@pytest.mark.parametrize("write", COMPUTED.values(), ids=COMPUTED)
@pytest.mark.parametrize(
    "options", [EMPTY, {"hoodie.write.batch.id": "7"}, {"_source": "offset 9"}], ids=["true", "batch", "metadata"]
)
def test_condition_that_no_row_meets_makes_the_commit_that_is_asked_for(write: Write, options: Options) -> None:
    table = filled()

    result = write(table, options)

    assert result.instant in table.inspect.history()["instant"].to_pylist()


@pytest.mark.parametrize("write", GIVEN.values(), ids=GIVEN)
def test_batch_without_rows_is_a_commit_unless_the_option_says_no(write: Write) -> None:
    table = filled()
    count = table.inspect.history().num_rows

    assert write(table, None).has_committed
    assert not write(table, NONE).has_committed

    assert table.inspect.history().num_rows == count + 1
    assert all(instant.state is InstantState.COMPLETED for instant in table.handle.state.timeline.instants)


def test_overwrite_without_rows_empties_the_table_whatever_the_option_says() -> None:
    table = filled()
    nothing = table.scan(columns=table.schema.names).to_arrow().slice(0, 0)

    assert table.insert_overwrite_table(nothing, hudi_options=NONE).has_committed

    assert table.scan().to_arrow().num_rows == 0
