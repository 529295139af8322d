"""Procedures of the audit of storage-based locks: whether it is on, switching it, and looking at what it recorded."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import pairwise
from typing import Any

from pyhudi.errors import ConfigError, CorruptDataError, NotFoundError
from pyhudi.sql.procedures.call_context import CallContext, Given
from pyhudi.sql.procedures.declared import TABLE_OR_PATH, Rows, flag, needed, number, procedure
from pyhudi.sql.procedures.file_slices import full_path
from pyhudi.storage.bounded import read_at_most
from pyhudi.table.features import check_writable
from pyhudi.table.state import TableState
from pyhudi.transaction.locks.storage_based import AUDIT_FOLDER, SWITCH_BYTES_MAX, SWITCH_FIELD, SWITCH_PATH

_FILE_BYTES_MAX = 64 * 1024 * 1024
_DAY_MS = 24 * 3600 * 1000
_STATES = ("enabled", "disabled")


def _label(table: TableState, given: Given) -> str:
    return given.text_or_none("table") or table.config.name


@procedure(
    *TABLE_OR_PATH,
    answer="table string not null, audit_enabled boolean not null, config_path string not null, "
    "audit_folder_path string not null",
)
def show_audit_lock_status(context: CallContext, given: Given) -> Rows:
    """Whether storage-based locks of the table are audited."""
    table = context.table(given).handle.state
    return [(_label(table, given), _is_on(table), full_path(table, SWITCH_PATH), full_path(table, AUDIT_FOLDER))]


def _is_on(table: TableState) -> bool:
    with suppress(NotFoundError):
        data = table.storage.read(SWITCH_PATH, length=SWITCH_BYTES_MAX)
        try:
            switch = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise CorruptDataError("the switch of the lock's audit does not parse", path=SWITCH_PATH) from error
        return isinstance(switch, dict) and switch.get(SWITCH_FIELD) is True
    return False


@procedure(
    *TABLE_OR_PATH,
    needed("state"),
    answer="table string not null, audit_state string not null, message string not null",
)
def set_audit_lock(context: CallContext, given: Given) -> Rows:
    """Switches the audit of storage-based locks: state => 'enabled' or 'disabled'."""
    table, state = context.table(given).handle.state, given.text("state").strip().lower()
    if state not in _STATES:
        raise ConfigError(f"state must be one of {', '.join(_STATES)}", state=state)
    check_writable(table)
    table.storage.put(SWITCH_PATH, json.dumps({SWITCH_FIELD: state == "enabled"}).encode())
    return [(_label(table, given), state, f"Lock audit logging successfully {state}")]


@procedure(
    *TABLE_OR_PATH,
    answer="table string not null, validation_result string not null, transactions_validated int not null, "
    "issues_found int not null, details string not null",
)
def validate_audit_lock(context: CallContext, given: Given) -> Rows:
    """Whether the audit shows two holders of the lock at one time, or one that did not release it."""
    table = context.table(given).handle.state
    files = table.storage.list_folder(AUDIT_FOLDER).files
    label = _label(table, given)
    if not files:
        return [(label, "PASSED", 0, 0, "No audit folder found - nothing to validate")]
    problems: list[str] = []
    held: list[tuple[int, int, str]] = []
    for info in files:
        lines = _lines(read_at_most(table.storage, info.path, _FILE_BYTES_MAX), info.path)
        times = [line["timestamp"] for line in lines]
        ended = [line["timestamp"] for line in lines if line["state"] == "END"]
        if not ended:
            problems.append(f"[WARNING] {info.name}: the lock was not released")
        last = ended[-1] if ended else max(line["lockExpiration"] for line in lines)
        held.append((min(times), last, info.name))
    warnings = len(problems)
    held.sort()
    for (_, until, name), (begun, _, following) in pairwise(held):
        if begun < until:
            problems.append(f"[ERROR] {following} begins before {name} ends")
    result = "FAILED" if len(problems) > warnings else "WARNING" if problems else "PASSED"
    details = "; ".join(problems) or "All audit lock transactions validated successfully"
    return [(label, result, len(held), len(problems), details)]


def _lines(data: bytes, path: str) -> list[dict[str, Any]]:
    try:
        lines = [json.loads(line) for line in data.splitlines() if line.strip()]
        found = [{name: line[name] for name in ("timestamp", "state", "lockExpiration")} for line in lines]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise CorruptDataError("a file of the lock's audit does not parse", path=path) from error
    if not found or not all(type(line["timestamp"]) is type(line["lockExpiration"]) is int for line in found):
        raise CorruptDataError("a file of the lock's audit does not parse", path=path)
    return found


@procedure(
    *TABLE_OR_PATH,
    flag("dry_run", False),
    number("age_days", 7),
    answer="table string not null, files_cleaned int not null, dry_run boolean not null, age_days int not null, "
    "message string not null",
)
def cleanup_audit_lock(context: CallContext, given: Given) -> Rows:
    """Deletes files of the audit that are older than some days; with dry_run => true it counts them."""
    handle = context.table(given).handle
    table, days, only_looks = handle.state, given.number("age_days"), given.flag("dry_run")
    if days < 0:
        raise ConfigError("age_days must not be negative", age_days=days)
    files = table.storage.list_folder(AUDIT_FOLDER).files
    label = _label(table, given)
    if not files:
        return [(label, 0, only_looks, days, "No audit folder found - nothing to cleanup")]
    oldest_ms = handle.environment.clock.now_ms() - days * _DAY_MS
    old = [info for info in files if info.modified_ms < oldest_ms and info.name.endswith(".jsonl")]
    if not only_looks:
        check_writable(table)
        for info in old:
            table.storage.delete(info.path)
    what = "Dry run: Would delete" if only_looks else "Successfully deleted"
    message = (
        f"{what} {len(old)} audit files older than {days} days"
        if old
        else f"No audit files older than {days} days found"
    )
    return [(label, len(old), only_looks, days, message)]
