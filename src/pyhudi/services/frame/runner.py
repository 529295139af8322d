"""Runs table services: what others left unfinished, and then what is due. A failure of one does not stop the next."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict, replace

from pyhudi.errors import ConfigError, InvalidRequestError
from pyhudi.format.timeline.instant import Instant
from pyhudi.services.frame.service import Due, RunOutcome, Service, ServiceCall, ServiceRun, Work
from pyhudi.services.frame.table_of_services import SERVICES
from pyhudi.telemetry.tracing import span
from pyhudi.transaction.plan_fencing import is_running

_log = logging.getLogger("pyhudi")


def checked_names(names: Iterable[str]) -> frozenset[str]:
    """These names of services. Raises `InvalidRequestError` for one that is none, and lists those that are."""
    known = [service.name for service in SERVICES]
    for name in names:
        if name not in known:
            raise InvalidRequestError("there is no table service with this name", service=name, known=known)
    return frozenset(names)


def service_that_plans(kind: str) -> Callable[[ServiceCall], str | None]:
    """The function that only plans a service of this kind. Raises `ConfigError` where there is none."""
    planning = {service.name: service.plan for service in SERVICES if service.plan is not None}
    if kind not in planning:
        *others, last = (f'"{name}"' for name in planning)
        raise ConfigError(f"the kind of service must be {', '.join(others)} or {last}", kind=kind)
    return planning[kind]


def pending_plans(call: ServiceCall) -> list[tuple[str, Instant]]:
    """The plans that are not completed, oldest first, each with the name of its service. Cost: a load of the table."""
    call = call.reloaded()
    found = [(service.name, plan) for service in SERVICES for plan in service.pending(call)]
    return sorted(found, key=lambda planned: planned[1].requested_time)


def due_services(call: ServiceCall) -> tuple[tuple[str, Due], ...]:
    """Each service with whether `run_due` would run it now, and why; nothing is written.

    Cost: that of a load of the table, and of `due_as_loaded`.
    """
    return due_as_loaded(call.reloaded())


def due_as_loaded(call: ServiceCall) -> tuple[tuple[str, Due], ...]:
    """`due_services` of the table as it was loaded.

    Cost: for a merge-on-read table a read per commit since the last compaction, and where one may be due a listing.
    """
    return tuple((service.name, _due_with_plans(service, call)) for service in SERVICES)


def _due_with_plans(service: Service, call: ServiceCall) -> Due:
    if plans := service.pending(call):
        return Due(True, f"{len(plans)} pending plan(s), the oldest {plans[0].requested_time}")
    due = service.due(call)
    if due.is_due and not service.has_work(call):
        return Due(False, f"{due.reason}, and no file slice to work on")
    return due


def run_due(call: ServiceCall, *, only: Collection[str] | None = None) -> Iterator[ServiceRun]:
    """Roll dead writers back, execute plans that no process is executing, then run what is due, in the table's order.

    `only`: the names of the services that may run; None for all. Each service works on the table as it is when its
    turn comes. What a service raises is in its result, and the next one runs.
    """
    chosen = tuple(service for service in SERVICES if only is None or service.name in only)
    for service in chosen:
        if service.is_first:
            yield from _run_if_due(service, call)
    for service in chosen:
        yield from _finish_plans(service, call)
    for service in chosen:
        if not service.is_first:
            yield from _run_if_due(service, call)


def run_plan(call: ServiceCall, instant: str) -> ServiceRun:
    """Execute the plan of this instant.

    Raises `InvalidRequestError` for an instant that is no plan of a service, and what the service raises.
    """
    began = call.environment.clock.monotonic()
    call = call.reloaded()
    service = next(
        (service for service in SERVICES if any(instant == p.requested_time for p in service.pending(call))), None
    )
    if service is None or service.execute is None:
        return replace(_result(_completed_service(call, instant), instant, None), message="it is completed")
    run = _result(service, instant, service.execute(call, instant))
    return replace(run, seconds=call.environment.clock.monotonic() - began)


def _completed_service(call: ServiceCall, instant: str) -> Service:
    """The service whose plan of this instant has been completed. Raises `InvalidRequestError` where there is none."""
    of_instant = [pending for pending in call.table.timeline.instants if pending.requested_time == instant]
    found = next((service for service in SERVICES for pending in of_instant if pending.action in service.actions), None)
    if found is None:
        raise InvalidRequestError("there is no planned service with this instant time", instant=instant)
    return found


def _run_if_due(service: Service, call: ServiceCall) -> Iterator[ServiceRun]:
    def run() -> tuple[Work | None, ...] | Due:
        fresh = call.reloaded()
        due = service.due(fresh)
        return service.run(fresh) if due.is_due else due

    yield from _guarded(service, None, call, run)


def _finish_plans(service: Service, call: ServiceCall) -> Iterator[ServiceRun]:
    """Execute the plans of a service, oldest first; each is tried, whatever happens to those before it."""
    fresh = call.reloaded()
    for plan in service.pending(fresh):

        def finish(plan: Instant = plan) -> tuple[Work | None, ...]:
            return (finish_plan(service, fresh, plan),)

        yield from _guarded(service, plan.requested_time, call, finish)


def finish_plan(service: Service, call: ServiceCall, plan: Instant) -> Work | None:
    """Execute a plan unless another process does; None then."""
    if service.execute is None or is_running(
        call.table.storage, call.table.version, plan, call.settings.heartbeat, call.environment
    ):
        return None
    return service.execute(call, plan.requested_time)


def _guarded(
    service: Service, instant: str | None, call: ServiceCall, run: Callable[[], tuple[Work | None, ...] | Due]
) -> Iterator[ServiceRun]:
    began = call.environment.clock.monotonic()
    try:
        with span(service.name):
            runs = _results(service, instant, run())
    except Exception as error:  # noqa: BLE001  # it is in the result, and the next service has nothing to do with it
        _log.warning("the table service %s failed: %s", service.name, error)
        runs = (ServiceRun(service=service.name, instant=instant, outcome=RunOutcome.FAILED, message=str(error)),)
    seconds = call.environment.clock.monotonic() - began
    yield from (replace(run, seconds=seconds / len(runs)) for run in runs)


def _results(service: Service, instant: str | None, found: tuple[Work | None, ...] | Due) -> tuple[ServiceRun, ...]:
    if isinstance(found, Due):
        return (
            ServiceRun(service=service.name, instant=instant, outcome=RunOutcome.NOTHING_TO_DO, message=found.reason),
        )
    if not found:
        return (ServiceRun(service=service.name, instant=instant, outcome=RunOutcome.NOTHING_TO_DO),)
    return tuple(_result(service, instant, work) for work in found)


def _result(service: Service, instant: str | None, work: Work | None) -> ServiceRun:
    if work is None:
        return ServiceRun(service=service.name, instant=instant, outcome=RunOutcome.LEFT)
    return ServiceRun(service=service.name, outcome=RunOutcome.DONE, **asdict(work))
