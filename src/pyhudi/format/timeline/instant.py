"""Instants of the timeline: file names, states and times.

    requested   <t>.<action>.requested
    inflight    <t>.<action>.inflight, but <t>.inflight for a commit
    completed   <t>.<action>, or <t>_<completion time>.<action> where the table version has completion times

Hudi compares times as text. Most are calendar times of 14 or 17 digits in the table's time zone. Others, such as
`00000000000000001`, are not dates, so only times that a user typed must be dates.

https://hudi.apache.org/docs/timeline describes actions and states.
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
from typing import Final, NewType, TypeAlias

from pyhudi.errors import ConfigError, CorruptDataError, InternalError
from pyhudi.format.timeline.table_version import TableVersion

InstantTime = NewType("InstantTime", str)
"""A requested or completion time, as the digits in file names."""


class Action(enum.StrEnum):
    """The action of an instant; the value is its word in file names and metadata."""

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
    """The state of an instant; a later state is greater."""

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


SKELETON_INSTANT: Final = InstantTime("00000000000001")
"""The bootstrap of the files that stay where they are: it wrote their skeletons."""
FULL_RECORD_INSTANT: Final = InstantTime("00000000000002")
"""The bootstrap of the files whose rows it copied."""
BOOTSTRAP_INSTANTS: Final = frozenset({SKELETON_INSTANT, FULL_RECORD_INSTANT})
"""The writes of bootstraps, whose instants are the same in all tables."""

USER_TIME_FORMATS: Final = (
    "yyyyMMddHHmmss[SSS]",
    "yyyy-MM-dd HH:mm:ss[.SSS][+HH:mm]",
    "yyyy-MM-dd",
)
"""The formats that `instant_time_from_user` accepts, in the notation of Hudi's documentation."""

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
_USER_WITH_OFFSET: Final = re.compile(r"(.+?)(?:(?<=\.[0-9]{3})[0-9]{3})? ?(Z|[+-][0-9]{2}:?[0-9]{2})")
"""A date and time, perhaps with microseconds, and how far it is from UTC."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_SECOND_DIGITS: Final = 14
_MILLISECOND_DIGITS: Final = 17
_SECOND_OF_NAME: Final = itemgetter(slice(_SECOND_DIGITS))
_END_OF_SECOND: Final = "999"  # the milliseconds that Hudi assumes for a time without milliseconds


_NEXT_STATE: Final = {
    InstantState.REQUESTED: InstantState.INFLIGHT,
    InstantState.INFLIGHT: InstantState.COMPLETED,
}
"""The legal transitions of an instant. It begins as requested, and is final when completed."""


def advanced(instant: Instant, to: InstantState, completion_time: InstantTime | None = None) -> Instant:
    """The instant in its next state. Completion may change the word of its action.

    Raises:
        InternalError: the transition is illegal, for example from requested to completed.
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
    """The action of the completed instant; three actions change their word at completion."""
    return _COMPLETED_AS.get(action, action)


# A write lists the timeline several times, and most names were there the last time.
@lru_cache(maxsize=1 << 12)
def parse_instant_file_name(name: str, version: TableVersion) -> Instant | None:
    """Parse the name of a file in the timeline folder; None if it is not that of an instant.

    Raises:
        CorruptDataError: the name of a completed instant has a completion time in a table version without them, or none
            in a version with them. Ignoring the file would hide a commit.
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
        raise InternalError(
            "the completion time of an instant is missing, or does not belong to its state or table version",
            instant=instant,
        )
    completion = "" if instant.completion_time is None else f"_{instant.completion_time}"
    return f"{instant.requested_time}{completion}.{_suffix(instant.action, instant.state, version)}"


def collapse(instants: Iterable[Instant]) -> tuple[Instant, ...]:
    """One instant per time and action, in its most advanced state, by requested time.

    Files of earlier states stay beside the completed one, under the pending word of the action. For example, a
    completed commit may belong to a compaction that was requested at its time. If an action completed twice, which no
    writer may do, the earlier completion counts, because readers saw it first.
    """
    newest: dict[tuple[InstantTime, Action], Instant] = {}
    for instant in instants:
        key = (instant.requested_time, completed_action(instant.action))
        known = newest.get(key)
        if known is None or _supersedes(instant, known):
            newest[key] = instant
    return tuple(newest[key] for key in sorted(newest))


def instants_of(names: Iterable[str], version: TableVersion) -> tuple[Instant, ...]:
    """Parse and collapse file names of the timeline folder, ignoring other files.

    A write lists the timeline several times, and most names were there the last time. So names are grouped by second,
    and the newest result for each second is cached. Raises the errors of `parse_instant_file_name`.
    """
    instants: list[Instant] = []
    odd: list[str] = []
    shapes = _shapes(version)
    for second, of_second in groupby(sorted(names), key=_SECOND_OF_NAME):
        names_of_second = tuple(of_second)
        if second.isdigit():
            completed = _completed_alone(names_of_second, shapes)
            instants += _KEPT.instants(second, names_of_second, version) if completed is None else (completed,)
        else:
            # Not the file of an instant, or one with a shorter time, whose files may be in different groups.
            odd += names_of_second
    if older := _KEPT.instants("", tuple(odd), version):
        return tuple(sorted([*older, *instants], key=attrgetter("requested_time")))
    return tuple(instants)


_Shapes: TypeAlias = dict[tuple[str, str, str], Action]


@cache
def _shapes(version: TableVersion) -> _Shapes:
    """The actions of table versions with completion times by what follows the times in the names of their files."""
    states = (InstantState.REQUESTED, InstantState.INFLIGHT, InstantState.COMPLETED)
    return {
        (f".{requested}", f".{inflight}", f".{completed}"): completed_action(action)
        for action in Action
        if version.has_completion_times and completed_action(action) is action
        for requested, inflight, completed in [[_suffix(action, state, version) for state in states]]
    }


def _completed_alone(names: tuple[str, ...], shapes: _Shapes) -> Instant | None:
    """The one instant of a second, if all of its files are there: the common case, and the only one on a long timeline.

    Other names are taken apart one by one, at some ten times the cost.
    """
    if len(names) != len(InstantState):
        return None
    requested, inflight, completed = names
    time, at = requested[:_MILLISECOND_DIGITS], completed[_MILLISECOND_DIGITS + 1 : 2 * _MILLISECOND_DIGITS + 1]
    suffixes = (requested[len(time) :], inflight[len(time) :], completed[2 * _MILLISECOND_DIGITS + 1 :])
    action = shapes.get(suffixes)
    is_plain = action is not None and inflight.startswith(time) and completed.startswith(f"{time}_")
    if action is None or not is_plain or not _is_digits(f"{time}{at}") or len(at) != len(time):
        return None
    return Instant(InstantTime(time), action, InstantState.COMPLETED, InstantTime(at))


def foreign_instants(names: Iterable[str], version: TableVersion) -> tuple[str, ...]:
    """The sorted names of instant files whose action this release does not know for the table version."""
    known = _suffixes(version)
    odd = [name for name in names if name.partition(".")[2] not in known]
    return tuple(sorted(name for name in odd if _FOREIGN.fullmatch(name)))


_NAMES_MAX: Final = 1 << 17
"""How many names are cached, with their instants: some 40 MB."""


class _KeptSeconds:
    """The instants of each second of a timeline, with the names that were there when it was listed last."""

    def __init__(self) -> None:
        self._of_second: dict[tuple[TableVersion, str], tuple[tuple[str, ...], tuple[Instant, ...]]] = {}
        self._names = 0

    def instants(self, second: str, names: tuple[str, ...], version: TableVersion) -> tuple[Instant, ...]:
        key = (version, second)
        kept = self._of_second.get(key)
        if kept is not None and kept[0] == names:
            return kept[1]
        parsed = (parse_instant_file_name(name, version) for name in names)
        instants = collapse(instant for instant in parsed if instant is not None)
        self._names += len(names) - (len(kept[0]) if kept is not None else 0)
        if self._names > _NAMES_MAX:
            self._of_second, self._names = {}, len(names)
        self._of_second[key] = names, instants
        return instants


_KEPT: Final = _KeptSeconds()


def format_instant_time(epoch_ms: int, zone: tzinfo | None) -> InstantTime:
    """The 17 digits of a time in milliseconds since the epoch. A zone of None is the local zone."""
    moment = (_EPOCH + epoch_ms * _MILLISECOND).astimezone(zone)
    return _digits_of(moment)


def parse_instant_time(instant_time: str, zone: tzinfo | None) -> int | None:
    """An instant time in milliseconds since the epoch, or None if it is not a calendar time.

    A time of 14 digits means the last millisecond of its second, as in JVM Hudi.
    """
    moment = _moment_of(instant_time)
    if moment is None:
        return None
    try:
        return (moment.replace(tzinfo=zone).astimezone(UTC) - _EPOCH) // _MILLISECOND
    except (OverflowError, OSError, ValueError):
        # In some zones, the first and last days of the calendar have no UTC time.
        return None


def next_instant_time(after: InstantTime) -> InstantTime:
    """The next calendar time in milliseconds, or the next number if the time is not a calendar time.

    Raises:
        CorruptDataError: there is no greater time of the same length, or the time contains non-digits.
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


def instant_time_from_user(text: str, zone: tzinfo | None) -> InstantTime:
    """Convert a time that a user typed, for time travel and the bounds of incremental reads, to an instant time.

    As in JVM Hudi, text without milliseconds means the end of its second, and a date means its midnight; 14 digits
    stay unchanged. A time of zeros means the beginning, and those of a bootstrap follow it. `zone` is that of the
    table's instants: times are in it, unless they say how far they are from UTC.

    Raises:
        ConfigError: the text has none of `USER_TIME_FORMATS`, or is not a valid date and time.
    """
    stripped = text.strip()
    if _USER_DIGITS.fullmatch(stripped):
        digits = stripped
    elif match := _USER_DATE_TIME.fullmatch(stripped):
        *parts, milliseconds = match.groups()
        digits = "".join(parts) + (milliseconds or _END_OF_SECOND)
    elif match := _USER_DATE.fullmatch(stripped):
        digits = "".join(match.groups()) + "0" * 9
    elif match := _USER_WITH_OFFSET.fullmatch(stripped):
        digits = _digits_at_offset(match[1], match[2], zone)
    else:
        digits = ""
    is_moment = not digits.strip("0") or digits in (SKELETON_INSTANT, FULL_RECORD_INSTANT) or _moment_of(digits)
    if not digits or not is_moment:
        raise ConfigError(f"this is no instant time; write it as one of {', '.join(USER_TIME_FORMATS)}", value=text)
    return InstantTime(digits)


def _digits_at_offset(text: str, offset: str, zone: tzinfo | None) -> str:
    """The instant time in a zone of a date and time that is this far from UTC; no digits if it is none."""
    match = _USER_DATE_TIME.fullmatch(text)
    if match is None:
        return ""
    *parts, milliseconds = match.groups()
    sign, hours, minutes = (offset[:1], offset[1:3], offset[-2:]) if offset != "Z" else ("+", "00", "00")
    distance = timedelta(hours=int(f"{sign}{hours}"), minutes=int(f"{sign}{minutes}"))
    epoch_ms = parse_instant_time("".join(parts) + (milliseconds or _END_OF_SECOND), UTC)
    try:
        return "" if epoch_ms is None else format_instant_time(epoch_ms - distance // _MILLISECOND, zone)
    except (OverflowError, OSError, ValueError):  # beyond the calendar
        return ""


def _suffix(action: Action, state: InstantState, version: TableVersion) -> str:
    """The suffix of a file name after its times."""
    if state is InstantState.COMPLETED:
        return completed_action(action).value
    if action is Action.COMMIT and state is InstantState.INFLIGHT:
        return "inflight"
    if action is Action.CLUSTERING and not version.has_clustering_action:
        action = Action.REPLACE_COMMIT
    return f"{action.value}.{state.name.lower()}"


@cache
def _suffixes(version: TableVersion) -> dict[str, tuple[Action, InstantState]]:
    """Action and state by suffix, for the writers of a table version."""
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
    """The calendar time of 14 or 17 digits, without a zone."""
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
