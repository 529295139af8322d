"""Properties of a table in SQL: which of them Hudi understands."""

from __future__ import annotations

import pytest

from pyhudi.config.option import OptionWarning
from pyhudi.errors import ConfigError
from pyhudi.sql.catalog.table_properties import hudi_options


def test_short_names_mean_options_and_others_are_the_catalogs() -> None:
    given = {"PrimaryKey": "id", "type": "MOR", "owner.team": "x", "path": "/t", "comment": "y", "hoodie.a": "b"}

    assert hudi_options(given) == {
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.a": "b",
    }


@pytest.mark.parametrize(
    ("name", "meant"),
    [("primaryKeys", "primarykey"), ("primary_key", "primarykey"), ("preCombineFields", "precombinefield")],
)
def test_name_that_is_nearly_one_of_hudi_brings_a_warning(name: str, meant: str) -> None:
    with pytest.warns(OptionWarning, match=f"{name} means nothing to Hudi.*did you mean {meant}"):
        assert hudi_options({name: "id"}) == {}


def test_unknown_type_and_two_keys_are_refused() -> None:
    with pytest.raises(ConfigError, match="'cow' or 'mor'"):
        hudi_options({"type": "cwo"})
    with pytest.raises(ConfigError, match="differ"):
        hudi_options({"primaryKey": "id", "hoodie.datasource.write.recordkey.field": "uuid"})
