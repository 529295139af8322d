"""Building again what a rollback or a restore had to drop: indexes that could not take back what a write said."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from pyhudi.errors import HudiError
from pyhudi.services.call import ServiceCall
from pyhudi.services.indexing.create import build_again
from pyhudi.table.metadata_partitions import FILES, RECORD_INDEX

_log = logging.getLogger("pyhudi")


@contextmanager
def keeping_indexes(call: ServiceCall) -> Iterator[None]:
    """Build the indexes again that are dropped inside, as long as the metadata table stays.

    One that cannot be built stays dropped, with a warning. Cost: two reads of the properties, and of each index that of
    `build_index`.
    """
    before = call.reloaded().table.config.metadata_partitions
    yield
    after = call.reloaded().table.config.metadata_partitions
    gone = {*before} - {*after}
    if FILES not in after:
        return
    for name in sorted(gone, key=lambda name: (name != RECORD_INDEX, name)):
        try:
            build_again(call, name)
        except HudiError as error:
            _log.warning("%s is not built again, ask `table.indexes` for it: %s", name, error)
