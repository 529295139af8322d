"""HoodieIncrSource: the rows that were written to a Hudi table since a checkpoint, and those that were deleted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.api.hudi_table import HudiTable
from pyhudi.config.options_streamer import HudiSourceOptions
from pyhudi.errors import ConfigError, SourceError, TableNotFoundError, UnsupportedFeatureError
from pyhudi.format.schema.meta_columns import without_meta_columns
from pyhudi.read.stream import StreamOffset
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.sources.protocol import Pull, Rows
from pyhudi.table.timeline import position_of

_IS_DELETED: Final = "_hoodie_is_deleted"
_ROW: Final = "_row"
_DELETE: Final = "d"
_POSITION: Final = "position"
_WRITE: Final = "write"
_BY_REQUEST: Final = "resumeFromInstantRequestTime:"
_BY_COMPLETION: Final = "resumeFromInstantCompletionTime:"


@dataclass(frozen=True, slots=True)
class HudiTableSource:
    """The table in a folder. `has_deletes`: whether its deletes are read, too. `options`: of stores, secret."""

    path: str
    settings: HudiSourceOptions
    has_deletes: bool
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
        _check_table(table, after)
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
            reached=Checkpoint(text=end, state=_known_by(table, end), is_completion_time=has_completion_times),
            read=lambda wanted, _: _rows(table, begin, end, wanted, has_deletes=self.has_deletes),
            items=max(1, len(writes)),
        )


def _known_by(table: HudiTable, position: str) -> str:
    """What the table is known again by, as another one may stand at its path later."""
    write = StreamOffset(position).of(table.handle.state).write
    return json.dumps({_POSITION: position, _WRITE: write}, separators=(",", ":"))


def _check_table(table: HudiTable, after: Checkpoint) -> None:
    """Raise `ConfigError` for the checkpoint of another table. That of JVM Hudi does not say which one it is of.

    Cost: as `StreamOffset.is_of`.
    """
    known = after.state_under(_POSITION)
    if after.text is not None and known and not StreamOffset(after.text, write=known[_WRITE]).is_of(table.handle.state):
        raise ConfigError(
            "the checkpoint is that of another table, which stood here before, or of one whose timeline has lost the"
            " write that it was made at: read this one from its begin with a new `ignore_checkpoint`, or give the"
            " `checkpoint` to go on from",
            path=table.handle.state.storage.uri,
            checkpoint=after.text,
            write=known[_WRITE],
        )


def _rows(table: HudiTable, begin: str | None, end: str, wanted: pa.Schema | None, *, has_deletes: bool) -> Rows:
    names = (without_meta_columns(table.schema) if wanted is None else wanted).names
    names = [name for name in names if name != _IS_DELETED]
    scan = table.changes(begin, end, columns=names, format="latest_state")
    if not has_deletes:
        return pa.RecordBatchReader.from_batches(scan.schema, scan.to_batches())
    rows = scan.to_arrow()
    rows = rows.append_column(_IS_DELETED, pa.repeat(pa.scalar(False), rows.num_rows))
    # The first batch has the rows of the table, and deletes nothing. In a copy with other partitions, a row that moved
    # in the source may stay where it is: of its delete and itself the later one counts.
    return rows if begin is None else pa.concat_tables([_deleted(table, begin, end, rows), rows])


def _deleted(table: HudiTable, begin: str, end: str, rows: pa.Table) -> pa.Table:
    """What was before the deletes of rows that did not come back to their partitions, with the columns of `rows`."""
    changes = table.changes(begin, end, columns=["op", "before"], format="cdc_typed").to_arrow()
    images = changes.filter(pc.equal(changes["op"], _DELETE)).select(["before"]).flatten()
    images = images.rename_columns([name.removeprefix("before.") for name in images.column_names])
    images = images.append_column(_IS_DELETED, pa.repeat(pa.scalar(True), images.num_rows))
    images = images.select(rows.column_names).cast(rows.schema)
    keys = list(table.handle.state.config.record_key_fields or ())
    if not keys:
        raise UnsupportedFeatureError(
            "deletes of a table whose record keys are generated are not read", path=table.handle.state.storage.uri
        )
    partition = [name for name in table.handle.state.config.partition_fields or () if name in rows.column_names]
    record = list(dict.fromkeys([*keys, *partition]))
    # A row that was deleted twice has two images; the newest one counts, and comes last.
    numbered = images.append_column(_ROW, pa.array(range(images.num_rows), pa.int64()))
    newest = numbered.group_by(record).aggregate([(_ROW, "max")])
    gone = newest.join(rows.select(record), record, join_type="left anti")
    return images.take(gone[f"{_ROW}_max"])


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
