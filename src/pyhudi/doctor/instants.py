"""Findings of the files of instants: completed twice, before they began, or in the future; or all of them gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC
from typing import Final

from pyhudi.doctor.finding import Finding, Severity
from pyhudi.format.file_names import has_rows
from pyhudi.format.timeline.instant import Instant, InstantState, format_instant_time, parse_instant_file_name
from pyhudi.services.frame.service import ServiceCall
from pyhudi.table.lister import list_data_files

_AHEAD_MS: Final = 26 * 3_600_000
"""Instants are in the time zone of the table, which may be ahead of UTC by 14 hours; clocks may differ by minutes."""


def instant_findings(call: ServiceCall) -> Iterator[Finding]:
    """What the names of the timeline's files show. Cost: a listing; one of the table, too, if there is no instant."""
    table = call.table
    if not table.timeline.instants:
        yield from _timeline_gone(call)
        return
    yield from _completed_twice(call)
    newest_possible = format_instant_time(call.environment.clock.now_ms() + _AHEAD_MS, UTC)
    for instant in table.timeline.instants:
        completed = instant.completion_time
        if completed is not None and completed < instant.requested_time:
            yield _out_of_order(
                instant,
                "instant completed before it began",
                f"it was requested at {instant.requested_time} and completed at {completed}: what reads changes since a"
                " time may leave it out. The clocks of its writers differ: set them (NTP)",
            )
        elif max(completed or "", instant.requested_time)[:14] > newest_possible[:14]:
            yield _out_of_order(
                instant,
                "instant is in the future",
                f"it was requested at {instant.requested_time}, and {completed or 'is not completed'}: later writes get"
                " instants above it, whatever the time is. Set the clock of its writer (NTP)",
            )


def _timeline_gone(call: ServiceCall) -> Iterator[Finding]:
    data = [info.path for info in list_data_files(call.table.storage) if has_rows(info.name)]
    if data:
        yield Finding(
            severity=Severity.ERROR,
            problem="timeline is gone",
            path=call.table.version.timeline_folder,
            detail=f"there is no instant, but {len(data):,} data files, such as {min(data)}: readers see no row of "
            "them. Put a copy of the folder back before the next write",
        )


def _completed_twice(call: ServiceCall) -> Iterator[Finding]:
    """Instants with several completed files, of which readers take the earliest."""
    version = call.table.version
    names: dict[tuple[str, str], list[str]] = defaultdict(list)
    for name in call.table.storage.list_names(version.timeline_folder):
        instant = parse_instant_file_name(name, version)
        if instant is not None and instant.state is InstantState.COMPLETED:
            names[instant.requested_time, instant.action.value].append(name)
    for (requested_time, action), twins in sorted(names.items()):
        if len(twins) > 1:
            yield Finding(
                severity=Severity.ERROR,
                problem="instant is completed twice",
                path=requested_time,
                detail=f"the {action} has the files {', '.join(sorted(twins))}: pyhudi reads the first of them, and"
                " others may read another. Move the others out of the timeline",
            )


def _out_of_order(instant: Instant, problem: str, detail: str) -> Finding:
    return Finding(
        severity=Severity.WARNING,
        problem=problem,
        path=instant.requested_time,
        detail=f"{instant.action.value}: {detail}",
    )
