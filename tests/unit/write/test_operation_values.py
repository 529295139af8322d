"""Which operation the options ask for."""

from __future__ import annotations

import pytest

from pyhudi.config.enums import DuplicatePolicy
from pyhudi.config.write_config import WriteConfig
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.write.operations import (
    Append,
    Delete,
    Insert,
    Overwrite,
    StagedWrite,
    Upsert,
    looks_up,
    overwrite_of,
    staged_write_of,
)

POLICY = "hoodie.datasource.insert.dup.policy"


def config(operation: str, **options: str) -> WriteConfig:
    return WriteConfig.from_options({"hoodie.datasource.write.operation": operation, **options})


@pytest.mark.parametrize(
    ("asked", "wanted", "searches"),
    [
        (config("upsert"), Upsert(combine=True), True),
        (config("upsert", **{"hoodie.combine.before.upsert": "false"}), Upsert(combine=False), True),
        (config("delete"), Delete(combine=True), True),
        (config("insert"), Insert(combine=False, on_known=DuplicatePolicy.NONE), False),
        (config("insert", **{POLICY: "drop"}), Insert(combine=True, on_known=DuplicatePolicy.DROP), True),
        (config("insert", **{POLICY: "fail"}), Insert(combine=False, on_known=DuplicatePolicy.FAIL), True),
        (config("bulk_insert"), Append(combine=False), False),
        (
            config("insert_overwrite"),
            Overwrite(combine=False, operation=WriteOperation.INSERT_OVERWRITE, whole_table=False),
            False,
        ),
        (
            config("insert_overwrite_table"),
            Overwrite(combine=False, operation=WriteOperation.INSERT_OVERWRITE_TABLE, whole_table=True),
            False,
        ),
    ],
)
def test_options_give_the_operation_with_its_own_fields(
    asked: WriteConfig, wanted: StagedWrite, searches: bool
) -> None:
    assert staged_write_of(asked) == wanted
    assert looks_up(wanted) is searches


@pytest.mark.parametrize(("operation", "combine"), [("upsert", True), ("insert", False), ("bulk_insert", False)])
def test_mode_overwrite_replaces_the_whole_table_and_combines_as_the_operation_does(
    operation: str, combine: bool
) -> None:
    assert overwrite_of(config(operation)) == Overwrite(
        combine=combine, operation=WriteOperation.INSERT_OVERWRITE_TABLE, whole_table=True
    )
