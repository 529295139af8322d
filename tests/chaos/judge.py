"""What must hold after a chaos run, held against what every process wrote down: `finish` and `judge`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.chaos.journal import Call, Journal, Work, read_journals
from tests.chaos.reader import pull, take_snapshot
from tests.chaos.setting import CALL_METADATA, Setting, rows_of
from tests.support.audit import audit

import pyhudi
from pyhudi.environment import SYSTEM
from pyhudi.errors import HudiError
from pyhudi.format.timeline.instant import Action, InstantState
from pyhudi.storage.protocol import Storage
from pyhudi.table.archive.history import archived_metadata
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.outcome import Outcome, outcome_of
from pyhudi.table.timeline import load_rollback_plan
from pyhudi.testing.isolation import Ending, Transaction, check_history
from pyhudi.transaction.intents import INTENT_FOLDER
from pyhudi.transaction.locks.table_lock import table_lock

_APPENDS = (Work.APPEND, Work.OWN)
_WRITES = (*_APPENDS, Work.ONCE)
_ROLLED_BACK_ASKED = 40
"""Of so many of the newest rollbacks it is asked what they took away: each answer reads all that are younger."""


def finish(setting: Setting) -> dict[str, int]:
    """Do what the writer who comes last does: recover, compact, write, read everything once more. What it found."""
    table = setting.open()
    # Nobody else writes now: a write of JVM Hudi that lost a conflict keeps no heartbeat, and is left to its own kind.
    rolled_back = table.recovery.roll_back_failed_writes(eager=True)
    compactions = table.services.compact().num_rows if setting.kind.table_type == "mor" else 0
    journal = Journal(setting.folder, "last")
    name = journal.begin(Work.ONCE, rows=1)
    result = table.upsert(rows_of(name, {(f"{name}/0", "once-0"): None}), hudi_options={CALL_METADATA: name})
    journal.end(name, Ending.OK, result=result.instant)
    take_snapshot(setting, journal, frozenset())
    followed = (call for call in read_journals(setting.folder) if call.work is Work.PULL and call.ending is Ending.OK)
    position = max((call.answer["until"] for call in followed if call.answer), default="")
    pull(setting, journal, position)
    return {"rolled back at the end": len(rolled_back), "compacted at the end": compactions}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found wrong, and how much there was to look at."""

    problems: tuple[str, ...]
    counts: Mapping[str, int]


def judge(setting: Setting) -> Verdict:
    """Hold the journals against the table as it is now, and against one another."""
    calls = read_journals(setting.folder)
    table = setting.open()
    committed = _committed_calls(table)
    problems = [
        *_bad_errors(calls, setting),
        *_wrong_outcomes(calls, committed, table),
        *_wrong_rows(calls, committed),
        *_wrong_snapshots(calls),
        *_wrong_pulls(calls, committed, setting),
        *(str(anomaly) for anomaly in check_history(transactions(calls))),
        *_left_over(table.handle.state.storage),
    ]
    return Verdict(tuple(problems), _counts(calls, committed, table))


def transactions(calls: Iterable[Call]) -> tuple[Transaction, ...]:
    """The appends and the snapshots as a history of lists; a snapshot has read every list that there ever was."""
    calls = tuple(calls)
    keys = {key for call in calls if call.work in _APPENDS for key in call.asked["appends"]}
    found = []
    for call in calls:
        if call.work in _APPENDS:
            reads = {key: tuple(values) for key, values in call.asked["reads"].items()}
            appends = dict.fromkeys(call.asked["appends"], (call.name,))
        elif call.work is Work.SNAPSHOT and call.answer is not None:
            lists = call.answer.get("lists", {})
            reads, appends = {key: tuple(lists.get(key, ())) for key in keys}, {}
        else:
            continue
        ended = {} if call.ended is None else {"ended": call.ended}
        one = Transaction(name=call.name, ending=call.ending, reads=reads, appends=appends, began=call.began, **ended)
        found.append(one)
    return tuple(found)


def _committed_calls(table: pyhudi.HudiTable) -> dict[str, str]:
    """Which calls have a completed write, and its instant, by the commits' own metadata."""
    found: dict[str, str] = {}
    state = table.handle.state
    active = [(one, load_commit_metadata(state.storage, one, state.version)) for one in state.timeline.completed_writes]
    # A process that dies while it archives leaves instants in both.
    active_times = {instant.requested_time for instant, _ in active}
    archived = archived_metadata(state.storage, state.version)
    for instant, metadata in (*active, *(one for one in archived if one[0].requested_time not in active_times)):
        if (name := metadata.extra.get(CALL_METADATA)) is not None:
            assert name not in found, f"{name} was committed twice"
            found[name] = instant.requested_time
    return found


def _bad_errors(calls: Iterable[Call], setting: Setting) -> Iterator[str]:
    """Answers that nothing which happened here explains."""
    expected = {"WriteConflictError", "LockNotAcquiredError", "CommitOutcomeUnknownError"}
    if setting.path.startswith("s3:") or "hoodie.write.lock.provider" in setting.options:
        # A lease or a session that was not renewed in time, on a machine that is busy.
        expected.add("LockLostError")
    for call in calls:
        if call.error is None:
            continue
        is_read = call.work in (Work.SNAPSHOT, Work.PULL)
        # Without completion times a pull has to wait for writes that began before the newest one.
        waits = call.work is Work.PULL and not setting.kind.has_completion_times
        if waits and call.error == "HistoryNotSettledError":
            continue
        if is_read or call.error not in expected:
            yield f"{call.name} ({call.work.value}) ended with {call.error}: {(call.answer or {}).get('why')}"
        # In merge-on-read tables it may meet a compaction.
        elif call.work is Work.OWN and call.error == "WriteConflictError" and setting.kind.table_type == "cow":
            yield f"{call.name} conflicted in a partition of its own: {(call.answer or {}).get('why')}"


def _wrong_outcomes(calls: Iterable[Call], committed: Mapping[str, str], table: pyhudi.HudiTable) -> Iterator[str]:
    """Acknowledged writes that are not there, refused ones that are, and instants of which `outcome_of` is mistaken."""
    for call in calls:
        if call.work not in _WRITES:
            continue
        is_there = call.name in committed
        if call.ending is Ending.OK and not is_there:
            yield f"lost: {call.name} was acknowledged and has no commit"
        if call.ending is Ending.FAILED and is_there:
            yield f"{call.name} was refused and is committed by {committed[call.name]}"
        if call.ending is Ending.OK and is_there and call.answer and call.answer["result"] != committed[call.name]:
            yield f"{call.name} was told {call.answer['result']} and is committed by {committed[call.name]}"
        if call.ending is Ending.UNKNOWN and call.answer and (instant := call.answer.get("instant")):
            said = outcome_of(table.handle.state, instant)
            if said is not (Outcome.COMMITTED if is_there else Outcome.ROLLED_BACK):
                yield f"{call.name} asked what became of {instant}: {said.value}"
    for name, instant in committed.items():
        if (said := outcome_of(table.handle.state, instant)) is not Outcome.COMMITTED:
            yield f"the outcome of {instant} ({name}) is {said.value}"
    for instant in _rolled_back(table)[-_ROLLED_BACK_ASKED:]:
        if (said := outcome_of(table.handle.state, instant)) is not Outcome.ROLLED_BACK:
            yield f"the outcome of {instant}, which was rolled back, is {said.value}"


def _rolled_back(table: pyhudi.HudiTable) -> tuple[str, ...]:
    """The instants that completed rollbacks took away; those of compactions may run again, under the same instant."""
    return tuple(
        plan.instant_time
        for rollback in table.handle.state.timeline.instants
        if rollback.action is Action.ROLLBACK and rollback.state is InstantState.COMPLETED
        for plan in [load_rollback_plan(table.handle.state.storage, rollback, table.handle.state.version)]
    )


def _wrong_rows(calls: Iterable[Call], committed: Mapping[str, str]) -> Iterator[str]:
    """Rows that are written once: in the end they are there, all of them, if and only if their call is committed."""
    once = {call.name for call in calls if call.work is Work.ONCE}
    (last,) = (call for call in calls if call.work is Work.SNAPSHOT and call.name.startswith("last."))
    there = set((last.answer or {}).get("new", ()))
    for name in sorted((once & set(committed)) - there):
        yield f"lost: the rows of {name}, which is committed, are gone"
    for name in sorted(there - set(committed)):
        yield f"there are rows of {name}, which is not committed"


def _wrong_snapshots(calls: Iterable[Call]) -> Iterator[str]:
    """Snapshots with parts of writes, with a key twice, or without what was there or acknowledged before."""
    calls = tuple(calls)
    acknowledged = sorted(
        (call.ended, call.name)
        for call in calls
        if call.work is Work.ONCE and call.ending is Ending.OK and call.ended is not None
    )
    seen: dict[str, set[str]] = {}
    for call in calls:
        if call.work is not Work.SNAPSHOT or call.ending is not Ending.OK or call.answer is None:
            continue
        yield from _said(call, ("torn", "twice", "gone"))
        known = seen.setdefault(call.name.partition(".")[0], set())
        known.update(call.answer["new"])
        known.difference_update(call.answer["gone"])
        for ended, name in acknowledged:
            if ended < call.began and name not in known:
                yield f"lost: {call.name} does not have {name}, which was acknowledged before"


def _wrong_pulls(calls: Iterable[Call], committed: Mapping[str, str], setting: Setting) -> Iterator[str]:
    """Pulls, one after the other: each write once, none left out, and lists that only grow."""
    pulls = [call for call in calls if call.work is Work.PULL and call.ending is Ending.OK and call.answer]
    delivered: Counter[str] = Counter()
    lists: dict[str, tuple[str, ...]] = {}
    for call in sorted(pulls, key=lambda one: one.began):
        assert call.answer is not None
        yield from _said(call, ("torn",))
        delivered.update(call.answer["once"])
        for key, values in call.answer["lists"].items():
            previous, now = lists.get(key, ()), tuple(values)
            if len(now) <= len(previous) or now[: len(previous)] != previous:
                yield f"{call.name} got {key} = {now} after {previous}"
            lists[key] = now
    for name, count in delivered.items():
        if count > 1:
            yield f"{name} was pulled {count} times"
    # In version 6 a write that completes late takes a place that the follower has passed, in Hudi as here.
    if setting.kind.has_completion_times:
        once = {call.name for call in calls if call.work is Work.ONCE}
        yield from (f"{name} was never pulled" for name in sorted((once & set(committed)) - set(delivered)))
        last = next(call for call in calls if call.work is Work.SNAPSHOT and call.name.startswith("last."))
        for key, values in (last.answer or {}).get("lists", {}).items():
            if lists.get(key) != tuple(values):
                yield f"the last that was pulled of {key} is {lists.get(key)}, and it is {values}"


def _said(call: Call, words: Iterable[str]) -> Iterator[str]:
    answer: Mapping[str, Any] = call.answer or {}
    return (f"{call.name}: {word} {answer[word]}" for word in words if answer[word])


def _left_over(storage: Storage) -> Iterator[str]:
    """What dead writers left and nobody took away; a lock that somebody dead still holds."""
    try:
        audit(storage)
    except AssertionError as error:
        yield f"audit: {error!r} at {_place_of(error)}"
    for folder in (INTENT_FOLDER, ".hoodie/.aux/.writers"):
        for info in storage.list_recursive(folder):
            yield f"left over: {info.path}"
    try:
        with table_lock(storage, SYSTEM, wait_ms=2_000):
            pass
    except HudiError as error:
        yield f"the lock is not free: {error}"


def _place_of(error: AssertionError) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{trace.tb_frame.f_code.co_name}:{trace.tb_lineno}"


def _counts(calls: Iterable[Call], committed: Mapping[str, str], table: pyhudi.HudiTable) -> dict[str, int]:
    calls = tuple(calls)
    counts: Counter[str] = Counter()
    for call in calls:
        counts[f"{call.work.value} {call.ending.name.lower()}"] += 1
        if call.error is not None:
            counts[call.error] += 1
        if (process := call.name.partition(".")[0]) in ("spark", "jvm"):
            counts[f"by {process} {call.ending.name.lower()}"] += 1
    unknown = [call for call in calls if call.work in _WRITES and call.ending is Ending.UNKNOWN]
    counts["unknown, committed"] = sum(call.name in committed for call in unknown)
    counts["unknown, not committed"] = sum(call.name not in committed for call in unknown)
    counts["commits"] = len(table.handle.state.timeline.completed_writes)
    counts["rollbacks"] = len(_rolled_back(table))
    return dict(sorted(counts.items()))
