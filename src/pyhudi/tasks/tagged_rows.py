"""Tags: which stored row an incoming one meets. What the index leaves for routing."""

from __future__ import annotations

import pyarrow as pa

from pyhudi.tasks.stage import ROW

FILE, POSITION, MOVED = "#file", "#position", "#moved"
BARRED = -1
"""In place of a file slice's number: the row is not to be written, because a later delete of its record came first."""
TAGS_SCHEMA = pa.schema([(ROW, pa.int64()), (FILE, pa.int32()), (POSITION, pa.int64()), (MOVED, pa.bool_())])
"""One tag: row number in its split, number of the file slice, row number in its base file, and whether the record
leaves that file's partition for another (global indexes)."""
