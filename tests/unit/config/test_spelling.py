"""Option names in any case, and names that are none."""

from __future__ import annotations

import pytest

from pyhudi.config.spelling import nearest_option, spelled, unknown_option
from pyhudi.errors import ConfigError


def test_known_name_in_upper_case_is_that_option() -> None:
    given = {"HOODIE.TABLE.NAME": "t", "As.Of.Instant": "2026-01-01"}
    assert spelled(given) == {"hoodie.table.name": "t", "as.of.instant": "2026-01-01"}


def test_unknown_name_keeps_its_case() -> None:
    assert spelled({"_Team": "x", "hoodie.Not.There": 1}) == {"_Team": "x", "hoodie.Not.There": 1}


def test_two_cases_of_one_name_that_agree_count_once() -> None:
    assert spelled({"hoodie.compact.inline": True, "HOODIE.compact.inline": "true"}) == {
        "hoodie.compact.inline": "true"
    }


def test_two_cases_of_one_name_that_differ_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"hoodie\.table\.name is given twice"):
        spelled({"hoodie.table.name": "a", "Hoodie.Table.Name": "b"})


def test_none_gives_way_to_a_value() -> None:
    assert spelled({"hoodie.table.name": "a", "HOODIE.TABLE.NAME": None}) == {"hoodie.table.name": "a"}


@pytest.mark.parametrize(
    ("argument", "meant"),
    [
        ("retries", "hoodie.write.num.retries.on.conflict.failures"),
        ("record_kee", "hoodie.datasource.write.recordkey.field"),
        ("recordkey_field", "hoodie.datasource.write.recordkey.field"),
        ("batch_id", "hoodie.write.batch.id"),
        ("index_type", "hoodie.index.type"),
        ("dry_run", None),
    ],
)
def test_python_name_leads_to_the_option_it_resembles(argument: str, meant: str | None) -> None:
    assert nearest_option(argument) == meant
    assert (f"did you mean {meant}?" in unknown_option(argument, call="upsert").message) is (meant is not None)
