"""Binding of arguments to the parameters of a procedure: by name in any case, by position, and by type."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

from pyhudi.sql.procedures.call_context import Given
from pyhudi.sql.procedures.declared import Parameter, Procedure, SqlType

Value: TypeAlias = Any
"""A value of Spark SQL in Python; arrays are lists, and maps are mappings."""

_BOUNDS = {SqlType.INT: 2**31, SqlType.LONG: 2**63}
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a call. `name` None: given by its position. `start`: its place in the statement."""

    value: Value
    name: str | None = None
    start: int = 0


class WrongArgumentError(Exception):
    """An argument does not fit. `start`: its place in the statement, None for the call as a whole."""

    def __init__(self, message: str, start: int | None = None, nearest: str | None = None) -> None:
        super().__init__(message)
        self.message, self.start, self.nearest = message, start, nearest


def bind(procedure: Procedure, arguments: Sequence[Argument]) -> Given:
    """The values of all parameters.

    Raises `WrongArgumentError` for an unknown parameter (with the nearest one), one that is given twice or missing, an
    argument by position behind one by name, too many arguments, and a value of another type.
    """
    known = {parameter.name.lower(): parameter for parameter in procedure.accepted}
    found: dict[str, Value] = {}
    has_names = False
    for position, argument in enumerate(arguments):
        if argument.name is None and has_names:
            raise WrongArgumentError("an argument without a name stands behind one with a name", argument.start)
        has_names = argument.name is not None
        parameter = _parameter(procedure, known, argument, position)
        if parameter.name in found:
            raise WrongArgumentError(f"{parameter.name} is given twice", argument.start)
        found[parameter.name] = _typed(parameter, argument)
    for declared in procedure.parameters:
        if (
            declared.required
            and found.get(declared.name) is None
            and not (declared.name == "table" and found.get("path"))
        ):
            raise WrongArgumentError(f"{procedure.name} needs {declared.name} => …")
    # A null is no value: the parameter is as if it were not given.
    explicit = frozenset(name for name, value in found.items() if value is not None)
    return Given(
        {
            parameter.name: found[parameter.name] if parameter.name in explicit else parameter.default
            for parameter in procedure.accepted
        },
        explicit,
    )


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar."""
    close = difflib.get_close_matches(name.lower(), list(known), n=1, cutoff=0.6)
    return close[0] if close else None


def _parameter(procedure: Procedure, known: Mapping[str, Parameter], argument: Argument, position: int) -> Parameter:
    if argument.name is None:
        if position >= len(procedure.parameters):
            count = len(procedure.parameters)
            raise WrongArgumentError(f"{procedure.name} takes {count} argument(s) at most", argument.start)
        return procedure.parameters[position]
    parameter = known.get(argument.name.lower())
    if parameter is None:
        names = ", ".join(parameter.name for parameter in procedure.accepted) or "none"
        raise WrongArgumentError(
            f"{procedure.name} has no parameter {argument.name}; it has {names}",
            argument.start,
            nearest(argument.name, (parameter.name for parameter in procedure.accepted)),
        )
    return parameter


def _typed(parameter: Parameter, argument: Argument) -> Value:
    """The value, if it has the type of the parameter, or can mean nothing else in it."""
    kind, value = parameter.type, argument.value
    converted: Value = None
    if kind is SqlType.STRING:
        converted = _as_text(parameter, value)
    elif kind is SqlType.BOOLEAN:
        converted = value if isinstance(value, bool) else _TRUTH.get(str(value).strip().lower())
    elif kind in _BOUNDS:
        whole = _as_whole(value)
        converted = whole if whole is not None and -_BOUNDS[kind] <= whole < _BOUNDS[kind] else None
    if converted is None and value is not None:
        raise WrongArgumentError(f"{parameter.name} must be of type {kind.value}", argument.start)
    return converted


def _as_text(parameter: Parameter, value: Value) -> str | None:
    """A text. A map is written as options are, an array as a list; a number is its digits, as of instants."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        is_options = parameter.name == "options"
        return ",".join(f"{_plain(key)}={_plain(item)}" for key, item in value.items()) if is_options else None
    if isinstance(value, list | tuple):
        return ",".join(_plain(item) for item in value)
    return None if isinstance(value, bytes | bytearray | float) else _plain(value)


def _plain(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_whole(value: Value) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    if isinstance(value, str) and value.strip().lstrip("-").isdecimal():
        return int(value.strip())
    return value if isinstance(value, int) else None
