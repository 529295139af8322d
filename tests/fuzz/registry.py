"""All targets by name."""

from __future__ import annotations

from tests.fuzz import data_files, logs, metadata_table, options, tables, timeline
from tests.fuzz.target import Target

TARGETS: dict[str, Target] = {
    target.name: target
    for room in (timeline, tables, logs, data_files, metadata_table, options)
    for target in room.TARGETS
}
