"""Inline services: what a write runs before it begins and after its commit, by its options and the service table."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyhudi.errors import CorruptDataError, HudiError
from pyhudi.services.frame.background import can_run_in_background, run_in_background
from pyhudi.services.frame.runner import finish_plan
from pyhudi.services.frame.service import Mode, Service, ServiceCall
from pyhudi.services.frame.table_of_services import SERVICES
from pyhudi.services.metadata_table.run import maintain_metadata_table, metadata_table_due
from pyhudi.telemetry.tracing import span

_log = logging.getLogger("pyhudi")


def run_inline_services(call: ServiceCall) -> None:
    """Run what is due after a write. A failure is a warning: the write before it stands, and must not be run again.

    Each service finishes its plans that no process is executing, and then begins something new if that is due. A plan
    that was made remains if that fails, and the next write, or `services.run` of `HudiTable`, executes it. Services
    that the options send to the background begin when the others have ended.
    """
    if not call.config.compaction.services_enabled:
        return
    later = _run(call, lambda service: service.mode(call))
    if not later:
        return
    if can_run_in_background(call):
        try:
            run_in_background(call, later, _run_by_name)
        except RuntimeError as error:
            _log.warning("services after a write run before it returns: %s", error)
        else:
            return
    _run_by_name(call, later)


def compact_before_write(call: ServiceCall) -> None:
    """Compact the metadata table before a write begins, if that is due, as JVM Hudi does; a failure is a warning.

    Behind the write its delta commit would be merged, and JVM Hudi could not roll it back. Cost: a listing, and that of
    `maintain_metadata_table` where it is due; nothing without a metadata table, or where the write drops it.
    """
    if not call.config.compaction.services_enabled or call.settings.metadata_table is False:
        return
    try:
        if metadata_table_due(call).is_due:
            with span("metadata_table"):
                maintain_metadata_table(call)
    except Exception as error:  # noqa: BLE001  # the write needs no compaction before it
        _warn(error, "the metadata table was not compacted, and the write goes on")


def _run_by_name(call: ServiceCall, names: frozenset[str]) -> None:
    _run(call, lambda service: Mode.INLINE if service.name in names else Mode.OFF)


def _run(call: ServiceCall, mode_of: Callable[[Service], Mode]) -> frozenset[str]:
    """Run services one after the other; the names of those that are to run in the background."""
    changes = True
    later = []
    for service in SERVICES:
        try:
            mode = mode_of(service)
            if mode is Mode.BACKGROUND:
                later.append(service.name)
            elif mode is not Mode.OFF:
                call = call.reloaded() if changes else call
                with span(service.name):
                    changes = _serve(service, mode, call)
        except Exception as error:  # noqa: BLE001  # the commit stands, whatever happens to a service after it
            changes = True
            _warn(error, f"the write is committed, but the {service.name} after it failed")
    return frozenset(later)


def _warn(error: Exception, what: str) -> None:
    # What is no error of ours is a bug, or the user's engine or merger: then its place is wanted, too.
    _log.warning("%s: %s", what, error, exc_info=None if isinstance(error, HudiError) else error)


def _serve(service: Service, mode: Mode, call: ServiceCall) -> bool:
    """Run one service after a write; whether it may have changed the timeline."""
    plans = service.pending(call) if mode is Mode.INLINE else ()
    for plan in plans:
        try:
            finish_plan(service, call, plan)
        except CorruptDataError as error:
            _log.warning("the write is committed, but a plan of the %s is damaged: %s", service.name, error)
    if plans:
        call = call.reloaded()
    if not service.due(call).is_due:
        return bool(plans)
    if mode is Mode.INLINE:
        return bool(service.run(call)) or bool(plans)
    return service.plan is not None and service.plan(call) is not None
