"""Instants: what the timeline consists of, their file names, and the times in them.

    requested   <t>.<action>.requested
    inflight    <t>.<action>.inflight, but <t>.inflight for a commit
    completed   <t>.<action>, or <t>_<completion time>.<action> where the table version has completion times

Times are compared as text, everywhere in Hudi. Most are calendar times of 14 or 17 digits in the table's zone; some
are made up (`00000000000000001`), so nothing here insists on a date unless a user typed it.

Source: `format/timeline.md` 1.2, 2 and traps 2, 5; mission rows S5-27, S5-35.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache, lru_cache
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Final, NewType

from pyhudi.errors import ConfigError, CorruptDataError, InternalError
from pyhudi.format.timeline.table_version import TableVersion

InstantTime = NewType("InstantTime", str)
"""A requested or completion time, as the digits that stand in file names."""


class Action(enum.StrEnum):
    """What an instant does; the value is its word in file names and metadata."""

    COMMIT = "commit"
    DELTA_COMMIT = "deltacommit"
    REPLACE_COMMIT = "replacecommit"
    CLUSTERING = "clustering"
    COMPACTION = "compaction"
    LOG_COMPACTION = "logcompaction"
    CLEAN = "clean"
    ROLLBACK = "rollback"
    RESTORE = "restore"
    SAVEPOINT = "savepoint"
    INDEXING = "indexing"


class InstantState(enum.IntEnum):
    """How far an instant got; a later state is greater."""

    REQUESTED = 0
    INFLIGHT = 1
    COMPLETED = 2


@dataclass(frozen=True, slots=True)
class Instant:
    """One action on the timeline. `completion_time` is None while it is pending, and always in table version 6."""

    requested_time: InstantTime
    action: Action
    state: InstantState
    completion_time: InstantTime | None = None


USER_TIME_FORMATS: Final = ("yyyyMMddHHmmss[SSS]", "yyyy-MM-dd HH:mm:ss[.SSS]", "yyyy-MM-dd")
"""What `instant_time_from_user` takes, in the notation of Hudi's documentation."""

_COMPLETED_AS: Final = {
    Action.COMPACTION: Action.COMMIT,
    Action.LOG_COMPACTION: Action.DELTA_COMMIT,
    Action.CLUSTERING: Action.REPLACE_COMMIT,
}
_TIMES: Final = re.compile(r"(?P<requested>[0-9]+)(?:_(?P<completed>[0-9]+))?")
_FOREIGN: Final = re.compile(r"[0-9]{14,}(?:_[0-9]+)?\.[a-z_]+(?:\.(?:requested|inflight))?")
_USER_DIGITS: Final = re.compile(r"[0-9]{14}(?:[0-9]{3})?")
_USER_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_USER_DATE_TIME: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[ T]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{3}))?"
)

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_SECOND_DIGITS: Final = 14
_MILLISECOND_DIGITS: Final = 17
_SECOND_OF_NAME: Final = itemgetter(slice(_SECOND_DIGITS))
_END_OF_SECOND: Final = "999"  # what Hudi puts behind a time that is given to the second


_NEXT_STATE: Final = {
    InstantState.REQUESTED: InstantState.INFLIGHT,
    InstantState.INFLIGHT: InstantState.COMPLETED,
}
"""The legal transitions of an instant. It begins as requested; a completed one changes no more."""


def advanced(instant: Instant, to: InstantState, completion_time: InstantTime | None = None) -> Instant:
    """The instant in its next state; a completed one has the word of its action that goes with it.

    Raises:
        InternalError: the protocol knows no such transition, for example from requested to completed.
    """
    if _NEXT_STATE.get(instant.state) is not to:
        raise InternalError(
            f"an instant that is {instant.state.name} cannot become {to.name}",
            instant=instant.requested_time,
            action=instant.action.value,
        )
    action = completed_action(instant.action) if to is InstantState.COMPLETED else instant.action
    return Instant(instant.requested_time, action, to, completion_time)


def completed_action(action: Action) -> Action:
    """What an action is called once it is completed: three of them change their word (trap 2)."""
    return _COMPLETED_AS.get(action, action)


# A write looks at the timeline several times, and most of it was there the last time.
@lru_cache(maxsize=1 << 16)
def parse_instant_file_name(name: str, version: TableVersion) -> Instant | None:
    """The instant that a file in the timeline folder stands for, or None for any other file there.

    Raises:
        CorruptDataError: the name is that of a completed instant, but with a completion time in a table version that
            has none or without one in a version that has them. To pass it over would hide a commit.
    """
    stem, _, suffix = name.partition(".")
    times, meaning = _TIMES.fullmatch(stem), _suffixes(version).get(suffix)
    if times is None or meaning is None:
        return None
    action, state = meaning
    requested, completed = InstantTime(times["requested"]), times["completed"]
    if state is not InstantState.COMPLETED:
        return Instant(requested, action, state) if completed is None else None
    if (completed is not None) is not version.has_completion_times:
        raise CorruptDataError(
            "the name of a completed instant does not fit the table's version",
            path=f"{version.timeline_folder}/{name}",
            table_version=version.number,
        )
    return Instant(requested, action, state, None if completed is None else InstantTime(completed))


def instant_file_name(instant: Instant, version: TableVersion) -> str:
    """The name of the instant's file in the timeline folder.

    Raises:
        InternalError: the completion time is missing, or does not belong to the state or the table version.
    """
    is_completed = instant.state is InstantState.COMPLETED
    if (instant.completion_time is not None) is not (is_completed and version.has_completion_times):
        raise InternalError("an instant has a completion time too many or too few", instant=instant)
    completion = "" if instant.completion_time is None else f"_{instant.completion_time}"
    return f"{instant.requested_time}{completion}.{_suffix(instant.action, instant.state, version)}"


def collapse(instants: Iterable[Instant]) -> tuple[Instant, ...]:
    """One instant per time and action, in its most advanced state, by requested time.

    Files of earlier states stay beside the completed one, under the pending word of the action: a completed commit
    stands for the compaction that was requested at its time. Should an action have completed twice, which no writer
    may do, the earlier completion counts: it is the one that readers saw first.
    """
    newest: dict[tuple[InstantTime, Action], Instant] = {}
    for instant in instants:
        key = (instant.requested_time, completed_action(instant.action))
        known = newest.get(key)
        if known is None or _supersedes(instant, known):
            newest[key] = instant
    return tuple(newest[key] for key in sorted(newest))


def instants_of(names: Iterable[str], version: TableVersion) -> tuple[Instant, ...]:
    """The collapsed instants that these file names spell; names of other files are passed over.

    A write looks at the timeline several times, and most of it was there the last time. So names are taken second by
    second, and what the names of one second spell is remembered. Errors: see `parse_instant_file_name`.
    """
    instants: list[Instant] = []
    odd: list[str] = []
    for second, of_second in groupby(sorted(names), key=_SECOND_OF_NAME):
        if second.isdigit():
            instants += _instants_of_second(tuple(of_second), version)
        else:
            # No file of an instant, or one whose time is shorter: its other files may be of another "second".
            odd += of_second
    if older := _instants_of_second(tuple(odd), version):
        return tuple(sorted([*older, *instants], key=attrgetter("requested_time")))
    return tuple(instants)


def foreign_instants(names: Iterable[str], version: TableVersion) -> tuple[str, ...]:
    """Names of instant files whose action is none that this release has heard of for the version, sorted."""
    known = _suffixes(version)
    odd = (name for name in names if name.partition(".")[2] not in known)
    return tuple(sorted(name for name in odd if _FOREIGN.fullmatch(name)))


@lru_cache(maxsize=1 << 15)
def _instants_of_second(names: tuple[str, ...], version: TableVersion) -> tuple[Instant, ...]:
    parsed = (parse_instant_file_name(name, version) for name in names)
    return collapse(instant for instant in parsed if instant is not None)


def format_instant_time(epoch_ms: int, zone: tzinfo | None) -> InstantTime:
    """The 17 digits of a moment, given in milliseconds since the epoch; a zone of None is this machine's own."""
    moment = (_EPOCH + epoch_ms * _MILLISECOND).astimezone(zone)
    return _digits_of(moment)


def parse_instant_time(instant_time: str, zone: tzinfo | None) -> int | None:
    """The moment of an instant time in milliseconds since the epoch, or None for one that is no calendar time.

    A time of 14 digits stands for the last millisecond of its second, as in Hudi.
    """
    moment = _moment_of(instant_time)
    if moment is None:
        return None
    try:
        return (moment.replace(tzinfo=zone).astimezone(UTC) - _EPOCH) // _MILLISECOND
    except (OverflowError, OSError, ValueError):
        # The first and last days of the calendar have no UTC time in every zone.
        return None


def next_instant_time(after: InstantTime) -> InstantTime:
    """The smallest calendar time above this one; plus one as a number if it is no calendar time.

    Raises:
        CorruptDataError: nothing of the same length lies above it, or it is not made of digits.
    """
    moment = _moment_of(after[:_MILLISECOND_DIGITS])
    try:
        if moment is not None:
            return _digits_of(moment + _MILLISECOND)
        following = str(int(after) + 1).zfill(len(after)) if _is_digits(after) else ""
    except (OverflowError, ValueError):
        following = ""
    if not following or following <= after:
        raise CorruptDataError("no instant time can follow this one", instant=after)
    return InstantTime(following)


def instant_time_from_user(text: str) -> InstantTime:
    """The instant time that a user means, for time travel and for the bounds of an incremental read.

    Text without milliseconds stands for the end of its second, and a bare date for its midnight; 14 digits stay as
    they are. A time of zeros means the beginning of time. All as in Hudi; the zone is that of the table.

    Raises:
        ConfigError: the text has none of `USER_TIME_FORMATS`, or is no date and time.
    """
    stripped = text.strip()
    if _USER_DIGITS.fullmatch(stripped):
        digits = stripped
    elif match := _USER_DATE_TIME.fullmatch(stripped):
        *parts, milliseconds = match.groups()
        digits = "".join(parts) + (milliseconds or _END_OF_SECOND)
    elif match := _USER_DATE.fullmatch(stripped):
        digits = "".join(match.groups()) + "0" * 9
    else:
        digits = ""
    if not digits or (_moment_of(digits) is None and digits.strip("0")):
        raise ConfigError(f"this is no instant time; write it as one of {', '.join(USER_TIME_FORMATS)}", value=text)
    return InstantTime(digits)


def _suffix(action: Action, state: InstantState, version: TableVersion) -> str:
    """What stands behind the times in a file name."""
    if state is InstantState.COMPLETED:
        return completed_action(action).value
    if action is Action.COMMIT and state is InstantState.INFLIGHT:
        return "inflight"
    if action is Action.CLUSTERING and not version.has_clustering_action:
        action = Action.REPLACE_COMMIT
    return f"{action.value}.{state.name.lower()}"


@cache
def _suffixes(version: TableVersion) -> dict[str, tuple[Action, InstantState]]:
    """What each suffix that writers of a version use means."""
    actions = [action for action in Action if action is not Action.CLUSTERING or version.has_clustering_action]
    return {
        _suffix(action, state, version): (action, state)
        for action in actions
        for state in InstantState
        if state is not InstantState.COMPLETED or completed_action(action) is action
    }


def _supersedes(instant: Instant, known: Instant) -> bool:
    if instant.state is known.state is InstantState.COMPLETED:
        return (instant.completion_time or "") < (known.completion_time or "")
    return instant.state > known.state


def _moment_of(instant_time: str) -> datetime | None:
    """The calendar time, without a zone, of 14 or 17 digits."""
    if len(instant_time) == _SECOND_DIGITS:
        instant_time += _END_OF_SECOND
    if len(instant_time) != _MILLISECOND_DIGITS or not _is_digits(instant_time):
        return None
    year, rest = int(instant_time[:4]), instant_time[4:]
    month, day, hour, minute, second = (int(rest[at : at + 2]) for at in range(0, 10, 2))
    try:
        return datetime(year, month, day, hour, minute, second, int(rest[10:]) * 1000)  # noqa: DTZ001
    except ValueError:
        return None


def _digits_of(moment: datetime) -> InstantTime:
    # Not strftime: it does not pad years below 1000 on every platform.
    date = f"{moment.year:04}{moment.month:02}{moment.day:02}"
    time = f"{moment.hour:02}{moment.minute:02}{moment.second:02}{moment.microsecond // 1000:03}"
    return InstantTime(date + time)


def _is_digits(text: str) -> bool:
    return text.isascii() and text.isdigit()
