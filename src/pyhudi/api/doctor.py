"""`check_machine` and `check_store`: the parts of the doctor that need no table."""

from __future__ import annotations

import os

import pyarrow as pa

from pyhudi.api.arguments import HudiOptions, known_options
from pyhudi.config.location import table_path
from pyhudi.doctor.finding import findings_table
from pyhudi.doctor.machine import machine_findings
from pyhudi.doctor.store import store_findings
from pyhudi.environment import SYSTEM


def check_machine() -> pa.Table:
    """What this machine lacks: packages that are missing or too old, Java, the Python of Spark's workers.

    Columns: as of `Inspect.findings`; optional packages that are not there are notes. Cost: no request to a store.
    """
    return findings_table(machine_findings(), "")


def check_store(path: str | os.PathLike[str], *, hudi_options: HudiOptions | None = None) -> pa.Table:
    """Which of the promises that tables rely on a store does not keep; no rows if it keeps all.

    Tried are exclusive creation by several writers at once, listing after a write, replacement and removal, and whether
    its clock agrees with that of this machine. One trial shows that a promise is broken, never that it always holds.

    Args:
        path: a folder, which need not exist; what is tried happens in a new folder in it, which is deleted again.
        hudi_options: options of the store, as for `HudiTable.for_path`.

    Columns: as of `Inspect.findings`. Cost: some thirty requests.
    """
    options = known_options(hudi_options, call="check_store")
    return findings_table(store_findings(table_path(path, options), options, SYSTEM), os.fspath(path))
