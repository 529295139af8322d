"""A writer that is JVM Hudi, beside ours and under the same lock: `run_jvm_writer`."""

from __future__ import annotations

from tests.chaos.beside import calls_until_stopped
from tests.chaos.journal import Journal
from tests.chaos.jvm import write_options
from tests.chaos.setting import CALL_METADATA, Setting
from tests.interop.neighbours import ASK_OFTEN, LAZY
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle, OracleError

from pyhudi.testing.isolation import Ending

#: The judge asks every commit of whom it is: none must go to the archive.
_KEEP_ALL = {"hoodie.archive.automatic": "false", "hoodie.clean.automatic": "false"}


def run_jvm_writer(setting: Setting, name: str) -> None:
    """Upsert new keys in several partitions by JVM Hudi until told to stop (SIGTERM)."""
    journal = Journal(setting.folder, name)
    calls = calls_until_stopped(setting, journal)
    oracle = Oracle(RELEASE_OF_TABLE_VERSION[setting.kind.version])
    options = {**write_options(setting), **LAZY, **ASK_OFTEN, **_KEEP_ALL, **setting.options}
    oracle.sql("select 1")  # starts it, which takes a while
    for call, rows in calls:
        try:
            # JVM Hudi, too, puts options that begin with an underscore into the commit.
            oracle.write(setting.path, rows, {**options, CALL_METADATA: call})
        except OracleError as error:
            why = f"{error} {error.trace}"
            if "ConcurrentModification" in why or "WriteConflict" in why:
                journal.end(call, Ending.FAILED, error="WriteConflictError", why=why[:2000])
            else:
                journal.end(call, Ending.UNKNOWN, error="OracleError", why=why[:2000])
        else:
            journal.end(call, Ending.OK)
    oracle.stop()
