"""Page views and visitors of each day, kept right though events come late and are sent again.

    python examples/pv_uv.py [FOLDER]

A tracker puts files of events into a folder. The streamer upserts them by their id, into the partition of their day: an
event that is sent again is there once, and a late one is counted in its own day. A run counts the days that changed.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

import pyhudi
import pyhudi.streamer

Event: TypeAlias = tuple[str, str, str, str]
"""Its id, the day, the page and the visitor."""
COLUMNS = ("id", "day", "page", "visitor")
COUNTS = pa.schema([("day", pa.string()), ("page", pa.string()), ("pv", pa.int64()), ("uv", pa.int64())])


def main(folder: str) -> None:
    """Three deliveries, of which the second has a late event, and the third is the first once more."""
    first = [("e1", "mon", "home", "ann"), ("e2", "mon", "home", "ben"), ("e3", "mon", "cart", "ann")]
    late = [("e4", "mon", "home", "ann"), ("e5", "tue", "home", "cay")]
    for number, events in enumerate((first, late, first)):
        deliver(folder, number, events)
        run(folder)
        print(counts(folder))


def deliver(folder: str, number: int, events: Iterable[Event]) -> None:
    """Put a file of events into the folder of the tracker."""
    path = Path(folder) / "landing" / f"{number}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(dict(zip(COLUMNS, event, strict=True))) for event in events))


def run(folder: str) -> None:
    """Read what is new, and count the days that it belongs to."""
    result = pyhudi.streamer.run(
        f"{folder}/events",
        source_class="JsonDFSSource",
        table_type="MERGE_ON_READ",
        hoodie_conf={
            "hoodie.streamer.source.dfs.root": f"{folder}/landing",
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "day",
        },
    )
    events = pyhudi.HudiTable.for_path(f"{folder}/events")
    end = events.inspect.position()
    begin = None
    if Path(f"{folder}/counts/.hoodie").exists():
        begin = pyhudi.HudiTable.for_path(f"{folder}/counts").inspect.commit_value("_events_position")
    if result.last is None and begin == end:
        return
    # From the position that the counts had come to: a run that died after the events were written is made up for.
    changed = events.changes(begin, end, columns=["day"], format="latest_state").to_arrow()["day"].unique().to_pylist()
    rows = events.scan(list(COLUMNS), [("day", "in", changed)]).to_arrow()
    counted = rows.group_by(["day", "page"]).aggregate([("id", "count"), ("visitor", "count_distinct")])
    options = {
        "hoodie.table.name": "counts",
        "hoodie.datasource.write.recordkey.field": "day,page",
        "_events_position": str(end),
    }
    pyhudi.save(counted.rename_columns(COUNTS.names).cast(COUNTS), f"{folder}/counts", hudi_options=options)


def counts(folder: str) -> dict[tuple[str, str], tuple[int, int]]:
    """Page views and visitors, by day and page."""
    rows = pyhudi.HudiTable.for_path(f"{folder}/counts").scan(COUNTS.names).to_arrow().to_pylist()
    return {(row["day"], row["page"]): (row["pv"], row["uv"]) for row in sorted(rows, key=str)}


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
