"""`type_at`: the type of a column, or of a field inside of one, by its path."""

from __future__ import annotations

import pyarrow as pa


def type_at(schema: pa.Schema, path: str) -> pa.DataType | None:
    """The type of a column by its name, or of a field of structs by its dotted path; None where there is none."""
    # `schema.names` makes a list of all of them, which for each column of a wide table takes seconds.
    first, *rest = [path] if schema.get_field_index(path) >= 0 else path.split(".")
    if schema.get_field_index(first) < 0:
        return None
    kind = schema.field(first).type
    for name in rest:
        if not pa.types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        kind = kind.field(name).type
    return kind
