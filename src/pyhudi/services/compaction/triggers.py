"""Triggers of compaction: by delta commits, by time, or by both."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo

from pyhudi.config.enums import CompactionTrigger
from pyhudi.format.timeline.instant import Action, parse_instant_time
from pyhudi.services.frame.service import Due
from pyhudi.table.timeline import Timeline, position_of

_MS_PER_SECOND = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSettings:
    """When to compact: after so many delta commits, or seconds. A limit counts as soon as it is reached."""

    trigger: CompactionTrigger = CompactionTrigger.NUM_COMMITS
    max_delta_commits: int = 5
    max_delta_seconds: int = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerFacts:
    """What the triggers decide by.

    `delta_commits`: those completed after the last completed compaction was planned. `delta_commits_after_request`:
    those that began after the newest pending plan, or after the last completed compaction if no plan is pending.
    `since`: the instant that time counts from, which is the last compaction, or else the first delta commit; None
    without either. `seconds`: passed since then; None if `since` is not a calendar time.
    """

    delta_commits: int
    delta_commits_after_request: int
    since: str | None
    seconds: int | None


def trigger_facts(timeline: Timeline, last_compaction: str | None, *, now_ms: int, zone: tzinfo | None) -> TriggerFacts:
    """What the triggers decide by, from the active timeline of a merge-on-read table.

    `last_compaction`: the instant time of the newest completed compaction. Names on the timeline do not show it, as a
    bulk insert completes as a commit too. `now_ms` is in milliseconds since the epoch, `zone` the table's.

    Only completed delta commits count. JVM Hudi counts pending ones too in two cases: after a request, and as the first
    delta commit. A write that is never committed leaves nothing to compact.
    """
    deltas = [write for write in timeline.completed_writes if write.action is Action.DELTA_COMMIT]
    last = last_compaction or ""
    planned = (i.requested_time for i in timeline.pending_compactions if i.action is Action.COMPACTION)
    last_request = max(planned, default=last)
    since = last or (deltas[0].requested_time if deltas else None)
    since_ms = None if since is None else parse_instant_time(since, zone)
    return TriggerFacts(
        # By completion: a delta commit that was running when the compaction was planned is not part of the plan.
        delta_commits=sum(position_of(delta) > last for delta in deltas),
        delta_commits_after_request=sum(delta.requested_time > last_request for delta in deltas),
        since=since,
        seconds=None if since_ms is None else now_ms // _MS_PER_SECOND - since_ms // _MS_PER_SECOND,
    )


def is_due(settings: TriggerSettings, facts: TriggerFacts) -> Due:
    """Whether a compaction is to be planned now."""
    if facts.since is None:
        return Due(False, "there is no delta commit yet")
    if settings.trigger is CompactionTrigger.NUM_COMMITS_AFTER_LAST_REQUEST:
        return _commits_due(settings, facts.delta_commits_after_request, "the last planned compaction")
    commits = _commits_due(settings, facts.delta_commits, "the last compaction")
    if settings.trigger is CompactionTrigger.NUM_COMMITS:
        return commits
    elapsed = _time_due(settings, facts)
    if settings.trigger is CompactionTrigger.TIME_ELAPSED:
        return elapsed
    if settings.trigger is CompactionTrigger.NUM_AND_TIME:
        return Due(commits.is_due and elapsed.is_due, f"{commits.reason}, and {elapsed.reason}")
    return Due(commits.is_due or elapsed.is_due, f"{commits.reason}, or {elapsed.reason}")


def _commits_due(settings: TriggerSettings, commits: int, since: str) -> Due:
    limit = settings.max_delta_commits
    return Due(commits >= limit, f"{commits} of {limit} delta commits since {since}")


def _time_due(settings: TriggerSettings, facts: TriggerFacts) -> Due:
    if facts.seconds is None:
        return Due(False, f"the instant {facts.since} is not a calendar time")
    limit = settings.max_delta_seconds
    return Due(facts.seconds >= limit, f"{facts.seconds} of {limit} seconds since the instant {facts.since}")
