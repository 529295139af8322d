"""Where a judge is known to answer differently from what was written, and why. Any other difference is a failure."""

from __future__ import annotations

#: Golden tables whose partition column real Hudi takes from the folder names and not from the files, so that it gives
#: the encoded text or the formatted date instead of the value. We give the value, which must fit the partition path.
PARTITION_COLUMN_FROM_PATH = {
    "v6-by-time": "event_ms",
    "v8-by-time": "event_ms",
    "v8-encoded-complex": "city",
    "v9-by-time": "event_ms",
    "v9-encoded-complex": "city",
}

#: Releases whose incremental read counts the commit at `begin` in. 0.15.0 and 1.2.0 do not, and neither do we.
BEGIN_IS_INCLUDED = frozenset({"1.0.2"})
