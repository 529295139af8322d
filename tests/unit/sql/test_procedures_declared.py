"""The declarations of procedures against those of JVM Hudi 1.2.0, which it gave by reflection."""

from __future__ import annotations

import json

import pytest
from tests.support.golden import GOLDEN

from pyhudi.sql.procedures.declared import Parameter, Procedure
from pyhudi.sql.procedures.registry import FAMILIES, PROCEDURES

_DECLARED = json.loads((GOLDEN / "sql" / "procedures-1.2.0.json").read_text())


def test_all_procedures_of_jvm_hudi_are_known_by_name() -> None:
    assert sorted(PROCEDURES) == sorted(_DECLARED)
    assert sum(map(len, FAMILIES.values())) == len(PROCEDURES)


@pytest.mark.parametrize("name", _DECLARED)
def test_a_procedure_has_the_parameters_and_columns_of_jvm_hudi(name: str) -> None:
    procedure = PROCEDURES[name]
    assert [_parameter(one) for one in procedure.parameters] == _DECLARED[name]["parameters"]
    assert _columns(procedure) == _DECLARED[name]["columns"]


def _parameter(one: Parameter) -> str:
    default = "" if one.default is None else f" = {one.default!s}"
    if isinstance(one.default, bool):
        default = default.lower()
    return f"{one.name} {one.type.value}{' required' if one.required else ''}{default}"


def _columns(procedure: Procedure) -> list[str]:
    return [f"{one.name} {one.type.value}{'' if one.nullable else ' not null'}" for one in procedure.columns]
