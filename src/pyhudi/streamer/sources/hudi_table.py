"""HoodieIncrSource: the rows that were written to a Hudi table since a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from pyhudi.api.hudi_table import HudiTable
from pyhudi.config.options_streamer import HudiSourceOptions
from pyhudi.errors import ConfigError, SourceError, TableNotFoundError
from pyhudi.format.schema.meta_columns import without_meta_columns
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.sources.protocol import Pull, Rows
from pyhudi.table.timeline import position_of

_BY_REQUEST: Final = "resumeFromInstantRequestTime:"
_BY_COMPLETION: Final = "resumeFromInstantCompletionTime:"


@dataclass(frozen=True, slots=True)
class HudiTableSource:
    """The table in a folder. `options` of the stores; they may hold credentials."""

    path: str
    settings: HudiSourceOptions
    options: Mapping[str, str] = field(repr=False)

    def pull(self, after: Checkpoint, *, limit: int | None) -> Pull | None:
        """See `Source.pull`; a limit is none of bytes here. Cost: a listing of the table's timeline, and one read."""
        del limit
        try:
            table = HudiTable.for_path(self.path, hudi_options=dict(self.options))
        except TableNotFoundError as error:
            raise SourceError("there is no Hudi table in the folder of the source", path=self.path) from error
        end = table.inspect.position()
        if end is None:
            return None
        begin = _position(table, after.text)
        writes = sorted(
            position
            for position in map(position_of, table.handle.state.timeline.completed_writes)
            if position <= end and (begin is None or position > begin)
        )
        if begin is not None and not writes:
            return None
        count = self.settings.instants
        # Without a checkpoint the first batch has all rows of the table, as its older writes may be archived.
        end = end if begin is None or count is None else writes[:count][-1]
        has_completion_times = table.handle.state.version.has_completion_times
        return Pull(
            reached=Checkpoint(text=end, is_completion_time=has_completion_times),
            read=lambda wanted, _: _rows(table, begin, end, wanted),
            items=max(1, len(writes)),
        )


def _rows(table: HudiTable, begin: str | None, end: str, wanted: pa.Schema | None) -> Rows:
    names = (without_meta_columns(table.schema) if wanted is None else wanted).names
    scan = table.changes(begin, end, columns=names, format="latest_state")
    return pa.RecordBatchReader.from_batches(scan.schema, scan.to_batches())


def _position(table: HudiTable, text: str | None) -> str | None:
    """Where a checkpoint is. That of JVM Hudi before its second form is an instant, and not when it was completed.

    Raises `ConfigError` for an instant that the active timeline does not have, as nothing says when it was completed.
    """
    if text is None:
        return None
    if text.startswith(_BY_COMPLETION):
        return text.removeprefix(_BY_COMPLETION)
    writes = table.handle.state.timeline.completed_writes
    instant = text.removeprefix(_BY_REQUEST)
    if not table.handle.state.version.has_completion_times:
        return instant
    if text == instant and any(position_of(write) == text for write in writes):
        return text
    found = next((position_of(write) for write in writes if write.requested_time == instant), None)
    if found is not None:
        return found
    if text != instant:
        raise ConfigError("there is no such completed write on the active timeline of the source", checkpoint=text)
    return text
