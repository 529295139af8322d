"""Procedures of the services that plan first and execute then: compaction and clustering."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pyhudi.api.hudi_table import HudiTable
from pyhudi.api.services import ServiceKind
from pyhudi.errors import ConfigError, InvalidRequestError, NotFoundError
from pyhudi.format.keys.partition_paths import partition_values
from pyhudi.format.timeline.instant import Action, Instant
from pyhudi.services.compaction.schedule import check_merge_on_read
from pyhudi.sql.procedures.call_context import CallContext, Given, options_of
from pyhudi.sql.procedures.declared import (
    TABLE_OR_PATH,
    Parameter,
    Rows,
    SqlType,
    flag,
    needed,
    number,
    procedure,
    text,
)
from pyhudi.sql.procedures.looks import requested
from pyhudi.table.pending_clusterings import load_clustering_plan, pending_clusterings
from pyhudi.table.state import TableState
from pyhudi.table.timeline import load_compaction_plan

_PLANS = "timestamp string, operation_size int, state string"
_CLUSTERINGS = "timestamp string, input_group_size int, state string, involved_partitions string"
_EXECUTES = ("execute", "scheduleandexecute")
_OPERATIONS = ("schedule", *_EXECUTES)
_SELECTED = {
    "predicate": "hoodie.clustering.plan.strategy.partition.selected",
    "selected_partitions": "hoodie.clustering.plan.strategy.partition.selected",
    "partition_regex_pattern": "hoodie.clustering.plan.strategy.partition.regex.pattern",
    "order": "hoodie.clustering.plan.strategy.sort.columns",
    "order_strategy": "hoodie.layout.optimize.strategy",
}
_PATH = "_pyhudi_partition_path"


@dataclass(frozen=True, slots=True)
class _Kind:
    """A service: its name for `schedule`, and its pending plans."""

    name: ServiceKind
    pending: Callable[[TableState], list[Instant]]


def _pending_compactions(table: TableState) -> list[Instant]:
    return [compaction for compaction in table.timeline.pending_compactions if compaction.action is Action.COMPACTION]


_COMPACTION = _Kind("compaction", _pending_compactions)
_CLUSTERING = _Kind("clustering", lambda table: [*pending_clusterings(table.storage, table.timeline)])


def _plan_and_execute(
    table: HudiTable, kind: _Kind, operation: str, given: Given, options: dict[str, str]
) -> Sequence[str]:
    """Do what `op` asks for: plan, execute what is pending, or both. The instants that were worked on.

    As in JVM Hudi, `scheduleandexecute` executes what is pending only if there was nothing to plan.
    """
    pending = [instant.requested_time for instant in kind.pending(table.handle.state)]
    chosen = given.words("instants")
    if chosen and operation != "execute":
        raise ConfigError("instants are the plans to execute: they go with op => 'execute' only", op=operation)
    if unknown := sorted(set(chosen) - set(pending)):
        raise InvalidRequestError(f"there is no pending {kind.name} with these instants", instants=", ".join(unknown))
    limit = given.number_or_none("limit")
    work = sorted(chosen) if chosen else pending if limit is None else pending[: max(limit, 0)]
    if operation != "execute":
        planned = table.services.schedule(kind.name, hudi_options=options)
        if planned is not None:
            work = [planned]
        elif operation == "schedule":
            return ()
    if operation in _EXECUTES:
        for instant in work:
            table.services.run(instant, hudi_options=options)
    return work


def _operation(word: str) -> str:
    operation = {"run": "scheduleandexecute"}.get(word.lower(), word.lower())
    if operation not in _OPERATIONS:
        raise ConfigError(f"op must be one of {', '.join(_OPERATIONS)}, run", op=word)
    return operation


@procedure(
    needed("op"),
    *TABLE_OR_PATH,
    Parameter("timestamp", SqlType.LONG),
    text("options"),
    text("instants"),
    number("limit"),
    answer=_PLANS,
)
def run_compaction(context: CallContext, given: Given) -> Rows:
    """Plans a compaction of a merge-on-read table (op => 'schedule'), executes plans ('execute'), or both ('run')."""
    operation = _operation(given.text("op"))
    instant = given.number_or_none("timestamp")
    options = options_of(given)
    table = context.table(given, options)
    check_merge_on_read(table.handle.state)
    if instant is not None and not given.words("instants"):
        given = given.with_value("instants", str(instant))
        operation = "execute"
    done = _plan_and_execute(table, _COMPACTION, operation, given, options)
    return _compaction_rows(table.refresh().handle.state, done)


@procedure(*TABLE_OR_PATH, number("limit", 20), answer=_PLANS, limits_rows=True)
def show_compaction(context: CallContext, given: Given) -> Rows:
    """The compactions of the active timeline, newest first."""
    table = context.table(given).handle.state
    check_merge_on_read(table)
    return _compaction_rows(table, None)


def _compaction_rows(table: TableState, times: Iterable[str] | None) -> Rows:
    """The compactions with these times, newest first; all of the active timeline for None."""
    wanted = None if times is None else frozenset(times)
    for instant in reversed(table.timeline.instants):
        is_one = instant.action in (Action.COMPACTION, Action.COMMIT)
        if not is_one or (wanted is not None and instant.requested_time not in wanted):
            continue
        try:
            plan = load_compaction_plan(table.storage, requested(instant, Action.COMPACTION), table.version)
        except NotFoundError:
            continue  # a commit that is no compaction
        yield (instant.requested_time, len(plan.operations), instant.state.name)


@procedure(
    *TABLE_OR_PATH,
    text("predicate"),
    text("order"),
    flag("show_involved_partition", False),
    text("op"),
    text("order_strategy"),
    text("options"),
    text("instants"),
    text("selected_partitions"),
    text("partition_regex_pattern"),
    number("limit"),
    answer=_CLUSTERINGS,
)
def run_clustering(context: CallContext, given: Given) -> Rows:
    """Plans a clustering (op => 'schedule'), executes plans ('execute'), or both, which is the default."""
    instants = given.words("instants")
    operation = _operation(given.text("op") or ("execute" if instants else "scheduleandexecute"))
    options = options_of(given)
    table = context.table(given, options)
    chosen = {name: given.text(name) for name in _SELECTED if given.text(name)}
    if "predicate" in chosen:
        found = partitions_where(context, table, chosen["predicate"])
        if not found:
            return ()
        chosen = {**chosen, "selected_partitions": ",".join(found)}
        del chosen["predicate"]
    options |= {_SELECTED[name]: value for name, value in chosen.items()}
    done = _plan_and_execute(table, _CLUSTERING, operation, given, options)
    state = table.refresh().handle.state
    return _clustering_rows(state, done, names_partitions=given.flag("show_involved_partition"))


@procedure(
    *TABLE_OR_PATH, number("limit", 20), flag("show_involved_partition", False), answer=_CLUSTERINGS, limits_rows=True
)
def show_clustering(context: CallContext, given: Given) -> Rows:
    """The clusterings of the active timeline, newest first."""
    table = context.table(given).handle.state
    return _clustering_rows(table, None, names_partitions=given.flag("show_involved_partition"))


def _clustering_rows(table: TableState, times: Iterable[str] | None, *, names_partitions: bool) -> Rows:
    wanted = None if times is None else frozenset(times)
    action = Action.CLUSTERING if table.version.has_clustering_action else Action.REPLACE_COMMIT
    for instant in reversed(table.timeline.instants):
        is_one = instant.action in (Action.CLUSTERING, Action.REPLACE_COMMIT)
        if not is_one or (wanted is not None and instant.requested_time not in wanted):
            continue
        plan = load_clustering_plan(table.storage, table.version, requested(instant, action))
        if plan is None:
            continue  # another replace commit
        partitions = (
            ",".join(sorted(file_slice.partition_path for file_slice in plan.slices)) if names_partitions else "*"
        )
        yield (instant.requested_time, len(plan.groups), instant.state.name, partitions)


@procedure(
    text("table"),
    text("path"),
    needed("pending_instant"),
    flag("delete_request_instant_file", False),
    answer="instant string, time_cost string",
)
def run_rollback_inflight_tableservice(context: CallContext, given: Given) -> Rows:
    """Gives up a pending compaction or clustering, and removes what was written for it."""
    instant = given.text("pending_instant")
    table = context.table(given)
    state = table.handle.state
    found = [instant for kind in (_COMPACTION, _CLUSTERING) for instant in kind.pending(state)]
    if instant not in {pending.requested_time for pending in found}:
        raise InvalidRequestError("there is no pending compaction or clustering with this instant", instant=instant)
    if not given.flag("delete_request_instant_file"):
        raise InvalidRequestError(
            "a plan needs no rollback to be executed again: run_compaction and run_clustering remove what a dead "
            "process left of it. To give the plan up, call with delete_request_instant_file => true",
            instant=instant,
        )
    clock = table.handle.environment.clock
    begun = clock.now_ms()
    table.recovery.rollback(instant)
    yield (instant, f"{clock.now_ms() - begun} ms")


def partitions_where(context: CallContext, table: HudiTable, condition: str) -> list[str]:
    """The partition paths whose values meet the condition, which Spark evaluates.

    Raises `ConfigError` for a table without partitions, and a condition that is not one on partition columns.
    """
    config = table.handle.state.config
    fields = config.partition_fields or ()
    if not fields:
        raise ConfigError("the table has no partitions, so there is nothing for a predicate to select")
    schema = table.schema
    paths = table.inspect.partitions().column("partition_path").to_pylist()
    values = [
        partition_values(path, fields, hive_style=config.hive_style, url_encoded=config.url_encode) for path in paths
    ]
    if not paths:
        return []
    rows = [(path, *(operation.get(name) for name in fields)) for path, operation in zip(paths, values, strict=True)]
    from pyhudi.spark.types import spark_schema  # noqa: PLC0415 - only a predicate needs pyspark

    quoted = ", ".join(f"`{name.replace('`', '``')}` string" for name in fields)
    texts = context.spark.createDataFrame(rows, f"{_PATH} string, {quoted}")
    kinds = spark_schema(pa.schema([schema.field(name) for name in fields])).fields
    typed = texts.select(_PATH, *(texts[f"`{kind.name}`"].cast(kind.dataType).alias(kind.name) for kind in kinds))
    try:
        return sorted(row[0] for row in typed.where(condition).select(_PATH).collect())
    except Exception as error:
        if type(error).__name__ != "AnalysisException":
            raise
        raise ConfigError(
            f"the predicate must be a condition on the partition columns ({', '.join(fields)}): {error}",
            predicate=condition,
        ) from error
