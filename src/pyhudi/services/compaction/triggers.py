"""Whether the time for a compaction has come: by delta commits, by time, or by both.

Source: `format/timeline.md` 7.2, 9; mission rows S1-38, S3-08.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import tzinfo

from pyhudi.config.enums import CompactionTrigger
from pyhudi.format.timeline.instant import Action, parse_instant_time
from pyhudi.table.timeline import Timeline, position_of

_MS_PER_SECOND = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSettings:
    """When to compact: after so many delta commits, after so many seconds. Each limit counts once it is reached."""

    trigger: CompactionTrigger = CompactionTrigger.NUM_COMMITS
    max_delta_commits: int = 5
    max_delta_seconds: int = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerFacts:
    """What the triggers look at.

    `delta_commits` completed after the last completed compaction was planned. `delta_commits_after_request` were begun
    after the newest pending plan, or after the last completed compaction where no plan is pending. `since` is the
    instant that time counts from: the last compaction, else the first delta commit, None on a table without either;
    `seconds` have passed since then, None where `since` is no calendar time.
    """

    delta_commits: int
    delta_commits_after_request: int
    since: str | None
    seconds: int | None


@dataclass(frozen=True, slots=True)
class Due:
    """Whether to compact now, and a sentence of why, for the user."""

    is_due: bool
    reason: str


def trigger_facts(timeline: Timeline, last_compaction: str | None, *, now_ms: int, zone: tzinfo | None) -> TriggerFacts:
    """What the triggers look at, from the active timeline of a merge-on-read table.

    `last_compaction` is the instant time of the newest completed compaction. The timeline alone cannot tell: it
    completes as a commit, and so does a bulk insert. `now_ms` is in milliseconds since the epoch, `zone` the table's.

    Only completed delta commits count. Real Hudi counts pending ones, too, in two corners: after a request, and when it
    looks for the first delta commit. What was never committed leaves nothing to compact.
    """
    deltas = [write for write in timeline.completed_writes if write.action is Action.DELTA_COMMIT]
    last = last_compaction or ""
    planned = (i.requested_time for i in timeline.pending_compactions if i.action is Action.COMPACTION)
    last_request = max(planned, default=last)
    since = last or (deltas[0].requested_time if deltas else None)
    since_ms = None if since is None else parse_instant_time(since, zone)
    return TriggerFacts(
        # By completion: a delta commit that was under way when the compaction was planned is not part of the plan.
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
        return Due(False, f"the instant {facts.since} is no time to count from")
    limit = settings.max_delta_seconds
    return Due(facts.seconds >= limit, f"{facts.seconds} of {limit} seconds since the instant {facts.since}")
