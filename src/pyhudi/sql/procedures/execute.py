"""Running a call: the rows of a procedure as an Arrow table, with its columns whether there are rows or not."""

from __future__ import annotations

from itertools import islice

import pyarrow as pa

from pyhudi.sql.procedures.call_context import CallContext, Given
from pyhudi.sql.procedures.declared import Procedure


def run_call(procedure: Procedure, given: Given, context: CallContext) -> pa.Table:
    """The answer of a procedure: up to the limit of the call, but all rows where `filtered` is to choose among them."""
    limit = None if filter_of(given) else procedure.row_limit(given)
    rows = list(islice(procedure.run(context, given), limit))
    arrays = [pa.array([row[at] for row in rows], column.type.arrow) for at, column in enumerate(procedure.columns)]
    return pa.Table.from_arrays(arrays, schema=procedure.schema)


def filter_of(given: Given) -> str | None:
    """The condition on the rows of the answer, as text of SQL."""
    return given.text_or_none("filter") if "filter" in given else None
