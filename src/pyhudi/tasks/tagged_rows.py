"""Tags: the stored row of an incoming row, as the index writes it for routing."""

from __future__ import annotations

import pyarrow as pa

from pyhudi.tasks.stage import ROW

FILE, POSITION, MOVED = "#file", "#position", "#moved"
BARRED = -1
"""Instead of the number of a file slice: the row is not written, as a delete has a larger ordering value."""
NEW_RECORD = -1
"""Instead of the position of a stored row: the record is not there, and comes into this file group."""
TAGS_SCHEMA = pa.schema([(ROW, pa.int64()), (FILE, pa.int32()), (POSITION, pa.int64()), (MOVED, pa.bool_())])
"""One tag: row number in its split, number of the file slice, row number in its base file, and whether the record
leaves that file's partition for another (global indexes)."""
