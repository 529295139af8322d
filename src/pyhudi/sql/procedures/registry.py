"""All procedures by name, and `help`, which describes them."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Final

from pyhudi.errors import ConfigError
from pyhudi.sql.procedures import (
    audit,
    bootstrapping,
    catalogs,
    cleaning,
    commits,
    copies,
    file_slices,
    files,
    logs,
    metadata_table,
    plans,
    recovery,
    refused,
    repairs,
    table_changes,
    timeline,
)
from pyhudi.sql.procedures.binding import nearest
from pyhudi.sql.procedures.call_context import CallContext, Given
from pyhudi.sql.procedures.declared import Procedure, Rows, SqlType, columns, text

_FAMILIES: Final = {
    "Writes": commits,
    "Timeline": timeline,
    "Compaction and clustering": plans,
    "Cleaning": cleaning,
    "Savepoints and rollbacks": recovery,
    "The table": table_changes,
    "Files": files,
    "File slices": file_slices,
    "Logs": logs,
    "Metadata table": metadata_table,
    "Bootstrap and import": bootstrapping,
    "Catalogs": catalogs,
    "Copies": copies,
    "Repairs": repairs,
    "Audit of locks": audit,
    "Not run": refused,
}
_WIDTH: Final = 30
_TYPE_NAMES: Final = {SqlType.INT: "integer", SqlType.LONG: "long"}
"""What JVM Hudi calls types in `help`, where it differs from DDL."""


def _help(context: CallContext, given: Given) -> Rows:
    del context
    wanted = given.text_or_none("cmd")
    return [(_overview() if wanted is None else described(procedure_named(wanted)),)]


def _overview() -> str:
    lines = [f"\t{name}\t{procedure.what}\n" for name, procedure in sorted(PROCEDURES.items())]
    return (
        "synopsis\n\tcall [command]([key1]=>[value1],[key2]=>[value2])\n"
        f"commands and description\n{''.join(lines)}"
        "You can use 'call help(cmd=>[command])' to view the detailed parameters of the command\n"
    )


def described(procedure: Procedure) -> str:
    """The parameters and columns of a procedure, as `CALL help(cmd => '…')` shows them."""
    lines = ["parameters:\n", _line("param", "type_name", "default_value", "required")]
    for parameter in procedure.parameters:
        default = "null" if parameter.default is None else str(parameter.default)
        shown = default.lower() if isinstance(parameter.default, bool) else default
        lines.append(_line(parameter.name, _type_name(parameter.type), shown, str(parameter.required).lower()))
    lines += ["outputType:\n", _line("name", "type_name", "nullable", "metadata")]
    for column in procedure.columns:
        lines.append(_line(column.name, _type_name(column.type), str(column.nullable).lower(), "{}"))
    return "".join(lines)


def _line(*cells: str) -> str:
    return "".join(f"\t{cell:<{_WIDTH}}" for cell in cells) + "\n"


def _type_name(kind: SqlType) -> str:
    return _TYPE_NAMES.get(kind, kind.value)


def _declared_in(module: ModuleType) -> tuple[Procedure, ...]:
    """The procedures of a module, in their order."""
    return tuple(found for found in vars(module).values() if isinstance(found, Procedure))


HELP: Final = Procedure(
    name="help",
    what="Lists the procedures, or describes one.",
    parameters=(text("cmd"),),
    columns=columns("result string"),
    run=_help,
)
FAMILIES: Final[Mapping[str, tuple[Procedure, ...]]] = {
    "Help": (HELP,),
    **{title: _declared_in(module) for title, module in _FAMILIES.items()},
}
PROCEDURES: Final[Mapping[str, Procedure]] = {
    procedure.name: procedure for family in FAMILIES.values() for procedure in family
}


def procedure_named(name: str) -> Procedure:
    """The procedure of a name, in any case. Raises `ConfigError`, which names the nearest, where there is none."""
    found = PROCEDURES.get(name.lower())
    if found is None:
        raise ConfigError(
            f"there is no procedure {name}; CALL help lists them all",
            procedure=name,
            nearest=nearest(name, PROCEDURES),
        )
    return found
