from __future__ import annotations

import pickle

import pyarrow as pa
import pytest

from pyhudi.config.enums import PartialUpdateMode
from pyhudi.errors import HudiError, InvalidRequestError, SchemaMismatchError
from pyhudi.merge.rules import MergeRules, merge_by

SCHEMA = pa.schema([pa.field("key", pa.string(), nullable=False), pa.field("n", pa.int64())])
OLDER = pa.table({"key": ["a", "b"], "n": [1, 2]}, schema=SCHEMA)
NEWER = pa.table({"key": ["a", "b"], "n": [3, 4]}, schema=SCHEMA)


class MergerOfAGivenAnswer:
    """A merger whose answer is given."""

    name = "mine"

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def merge(self, _older: pa.Table, _newer: pa.Table) -> pa.Table:
        return self.answer


def test_merged_rows_have_the_schema_that_went_in():
    loose = pa.table({"key": ["a", "b"], "n": [4, None]})
    assert merge_by(MergerOfAGivenAnswer(loose), OLDER, NEWER, ["key"]).equals(
        pa.table(loose.to_pydict(), schema=SCHEMA)
    )


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (None, InvalidRequestError, "NoneType"),
        (NEWER.to_batches()[0], InvalidRequestError, "RecordBatch"),
        (NEWER.slice(1), InvalidRequestError, "rows=1"),
        (pa.concat_tables([NEWER, OLDER]), InvalidRequestError, "rows=4"),
        (NEWER.take([1, 0]), InvalidRequestError, "order of its arguments"),
        (NEWER.set_column(0, "key", pa.array(["a", "a"])), InvalidRequestError, "column='key'"),
        (NEWER.set_column(0, "key", pa.array(["a", None])), SchemaMismatchError, "null"),
        (NEWER.drop_columns(["n"]), SchemaMismatchError, "missing .*n: int64"),
        (NEWER.append_column("extra", pa.array([1, 2])), SchemaMismatchError, "unexpected .*extra"),
        (NEWER.set_column(1, "n", pa.array([1.0, 2.0])), SchemaMismatchError, "n: double"),
        (NEWER.select(["n", "key"]), SchemaMismatchError, "order of columns"),
    ],
)
def test_merger_that_returns_something_else_is_refused_by_name(answer: object, error: type[HudiError], says: str):
    with pytest.raises(error, match=says) as caught:
        merge_by(MergerOfAGivenAnswer(answer), OLDER, NEWER, ["key"])
    assert caught.value.context["merger"] == "mine"


@pytest.mark.parametrize(
    ("rules", "selects"),
    [
        (MergeRules(), True),
        (MergeRules(ordering_fields=("ts",), delete_marker=("op", "D")), True),
        (MergeRules(partial_updates=PartialUpdateMode.IGNORE_DEFAULTS), False),
        (MergeRules(merger=MergerOfAGivenAnswer(None)), False),
    ],
)
def test_rules_select_unless_they_make_new_rows(rules: MergeRules, selects: bool):
    assert rules.selects is selects


def test_rules_that_contradict_themselves_are_refused():
    with pytest.raises(InvalidRequestError, match="marker"):
        MergeRules(partial_updates=PartialUpdateMode.FILL_UNAVAILABLE)
    with pytest.raises(InvalidRequestError, match="mine"):
        MergeRules(partial_updates=PartialUpdateMode.IGNORE_DEFAULTS, merger=MergerOfAGivenAnswer(None))


def test_rules_are_hashable_and_survive_pickling():
    rules = MergeRules(ordering_fields=("ts",), partial_updates=PartialUpdateMode.IGNORE_DEFAULTS)
    assert pickle.loads(pickle.dumps(rules)) == rules
    assert hash(rules) == hash(pickle.loads(pickle.dumps(rules)))
