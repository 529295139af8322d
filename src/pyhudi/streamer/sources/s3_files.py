"""S3EventsHoodieIncrSource: the files that events of buckets name, which S3EventsSource has written to a Hudi table."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import unquote_plus

import pyarrow as pa

from pyhudi.config.options_streamer import FolderOptions
from pyhudi.engine.local import as_table
from pyhudi.errors import NotFoundError, SourceError
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import FileInfo
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.sources.avro_rows import joined_rows
from pyhudi.streamer.sources.file_rows import Reading, rows_of_files
from pyhudi.streamer.sources.hudi_table import HudiTableSource
from pyhudi.streamer.sources.protocol import Pull, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilesSource:
    """The table of events, and how the files are read. `stores`: the options of their stores."""

    events: HudiTableSource
    kind: str
    prefix: str
    options: FolderOptions
    stores: Mapping[str, str] = field(repr=False)

    def pull(self, after: Checkpoint, *, limit: int | None) -> Pull | None:
        """See `Source.pull`; a batch has the files of whole writes of the table. Cost: that of HoodieIncrSource."""
        pull = self.events.pull(after, limit=limit)
        return None if pull is None else replace(pull, read=functools.partial(self._rows, pull))

    def _rows(self, pull: Pull, wanted: pa.Schema | None, stored: pa.Schema | None) -> Rows:
        files: dict[str, dict[str, FileInfo]] = {}
        for event in _in_order(as_table(pull.read(None, None))):
            key = unquote_plus(event["object"]["key"])
            if key.startswith(self.prefix):
                files.setdefault(event["bucket"]["name"], {})[key] = FileInfo(key, event["object"]["size"] or 0, 0)
        parts = []
        for bucket, named in files.items():
            reading = Reading(open_storage(f"s3://{bucket}", self.stores), self.options, wanted, stored)
            try:
                parts.append(as_table(rows_of_files(self.kind, list(named.values()), reading)))
            except NotFoundError as error:
                raise SourceError(
                    "a file that an event names is not there any more: put it back, or begin behind it with"
                    " `checkpoint`",
                    bucket=bucket,
                    **error.context,
                ) from error
        if not parts:
            return (wanted if wanted is not None else pa.schema([])).empty_table()
        return parts[0] if len(parts) == 1 else joined_rows(parts, stored)


def _in_order(events: pa.Table) -> list[Any]:
    """What the events say of objects, oldest first."""
    found: list[Any] = events.sort_by("eventTime")["s3"].to_pylist()
    return found
