"""Building again what a rollback or a restore had to drop: indexes that could not take back what a write said."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pyhudi.errors import HudiError
from pyhudi.services.frame.service import ServiceCall
from pyhudi.services.indexing.create import build_again
from pyhudi.services.indexing.drop import drop_index
from pyhudi.table.index_definitions import types_at
from pyhudi.table.indexed_columns import indexed_columns
from pyhudi.table.metadata_partitions import FILES, RECORD_INDEX
from pyhudi.table.schema import load_table_schema
from pyhudi.table.state import TableState

_log = logging.getLogger("pyhudi")


@contextmanager
def keeping_indexes(call: ServiceCall) -> Iterator[None]:
    """Build the indexes again that are dropped inside, as long as the metadata table stays.

    One that cannot be built stays dropped, with a warning; one over a column that is gone loses its definition, too.
    Cost: two reads of the properties, and of each index that of `build_index`.
    """
    before = call.reloaded().table.config.metadata_partitions
    yield
    table = call.reloaded().table
    after = table.config.metadata_partitions
    gone = {*before} - {*after}
    if FILES not in after or not gone:
        return
    aimless = _without_columns(table)
    for name in sorted(gone, key=lambda name: (name != RECORD_INDEX, name)):
        try:
            if name in aimless:
                _log.warning("%s is dropped: the table no longer has its column", name)
                drop_index(call, name)
            else:
                build_again(call, name)
        except HudiError as error:
            _log.warning("%s is not built again, ask `table.indexes` for it: %s", name, error)


def _without_columns(table: TableState) -> frozenset[str]:
    """The indexes over columns that the table does not have."""
    schema = load_table_schema(table)
    return frozenset(
        name
        for name, one in indexed_columns(table).items()
        if schema is None or len(types_at(schema.arrow, one.source_columns)) < len(one.source_columns)
    )
