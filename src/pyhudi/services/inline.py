"""Inline services: what a write runs after its commit, if its options ask for it: compaction, cleaning, archiving."""

from __future__ import annotations

import logging

from pyhudi.config.enums import TableType
from pyhudi.errors import HudiError
from pyhudi.services.archiving.archive import archive, archiving_is_due
from pyhudi.services.call import ServiceCall
from pyhudi.services.cleaning.execute import clean, clean_is_due
from pyhudi.services.compaction.execute import run_pending_compactions
from pyhudi.services.compaction.schedule import compaction_due, schedule_compaction

_log = logging.getLogger("pyhudi")


def run_inline_services(call: ServiceCall) -> None:
    """Run what is due after a write. A failure is a warning: the write before it stands, and must not be run again."""
    if not call.config.compaction.services_enabled:
        return
    _compact(call)
    _clean(call)
    _archive(call)


def _clean(call: ServiceCall) -> None:
    """Clean when that is due. A clean that fails stays planned; the next write that cleans executes it."""
    if not call.config.cleaning.runs_after_writes:
        return
    try:
        call = call.reloaded()
        if clean_is_due(call):
            clean(call)
    except HudiError as error:
        _log.warning("the write is committed, but the clean after it failed: %s", error)


def _archive(call: ServiceCall) -> None:
    """Archive when the active timeline is long enough. What fails is done by the next write that archives."""
    if not call.config.archiving.runs_after_writes:
        return
    try:
        call = call.reloaded()
        if archiving_is_due(call):
            archive(call)
    except HudiError as error:
        _log.warning("the write is committed, but archiving after it failed: %s", error)


def _compact(call: ServiceCall) -> None:
    """Compact a merge-on-read table when that is due, or compact its logs; or only schedule it for another process.

    A plan that was made remains, and is executed by the next write that compacts, or by `services.compact` of
    `HudiTable`.
    """
    options, table_type = call.config.compaction, call.table.config.table_type
    runs = options.runs_inline(table_type)
    joins_logs = options.log_enabled and options.log_inline
    if table_type is not TableType.MERGE_ON_READ or not (runs or options.schedule_inline or joins_logs):
        return
    try:
        call = call.reloaded()
        if compaction_due(call).is_due:
            schedule_compaction(call)
        elif joins_logs:
            schedule_compaction(call, of_logs=True)
        if runs or joins_logs:
            run_pending_compactions(call)
    except HudiError as error:
        _log.warning("the write is committed, but the compaction after it failed: %s", error)
