"""The audit of storage-based locks: which writer held the table lock when, as Hudi's `validate_audit_lock` reads it.

`.hoodie/.locks/audit_enabled.json` switches it on (Hudi's `set_audit_lock` writes that file). Each acquisition of the
lock has its own file, `.hoodie/.locks/audit/<start>_<owner>.jsonl`, with a line for its start, each
renewal and its end.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass, field

from pyhudi.errors import NotFoundError, StorageError
from pyhudi.storage.protocol import Storage
from pyhudi.transaction.locks.lease import Lease

SWITCH_PATH = ".hoodie/.locks/audit_enabled.json"
SWITCH_BYTES_MAX = 4096
"""What is read of the switch: one field."""
SWITCH_FIELD = "STORAGE_LOCK_AUDIT_SERVICE_ENABLED"
AUDIT_FOLDER = ".hoodie/.locks/audit"

_log = logging.getLogger("pyhudi")


@dataclass(slots=True, kw_only=True)
class Audit:
    """The lines of one acquisition; times are milliseconds since the epoch."""

    storage: Storage
    owner: str
    started_ms: int
    validity_ms: int
    lines: list[str] = field(default_factory=list)

    @property
    def path(self) -> str:
        """The file of this acquisition."""
        return f"{AUDIT_FOLDER}/{self.started_ms}_{self.owner}.jsonl"

    def record(self, state: str, at_ms: int) -> None:
        """Add a line: START, RENEW or END. Cost: one put. An audit that fails stops no write."""
        line = {
            "ownerId": self.owner,
            "transactionStartTime": self.started_ms,
            "timestamp": at_ms,
            "state": state,
            "lockExpiration": at_ms + self.validity_ms,
            "lockHeld": True,
        }
        self.lines.append(f"{json.dumps(line)}\n")
        try:
            self.storage.put(self.path, "".join(self.lines).encode(), durable=False)
        except StorageError as error:
            _log.warning("the audit of the table lock lacks a line: %s", error)


def open_audit(storage: Storage, owner: str, lease: Lease) -> Audit | None:
    """The audit of one acquisition, or None where the table has none. Cost: one read."""
    try:
        switch = json.loads(storage.read(SWITCH_PATH, length=SWITCH_BYTES_MAX))
    except NotFoundError:
        return None
    except (StorageError, ValueError, RecursionError) as error:
        _log.warning("the table lock is not audited, because it cannot be read whether it should be: %s", error)
        return None
    if not isinstance(switch, dict) or switch.get(SWITCH_FIELD) is not True:
        return None
    return Audit(storage=storage, owner=owner, started_ms=lease.at_ms, validity_ms=lease.duration_ms)
