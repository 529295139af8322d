"""`check_machine`, `check_store` and `check_folder`: the parts of the doctor that need no table."""

from __future__ import annotations

import os

import pyarrow as pa

from pyhudi.api.arguments import HudiOptions, known_options
from pyhudi.config.location import table_path
from pyhudi.doctor.finding import findings_table
from pyhudi.doctor.folder import folder_findings, mend_folder
from pyhudi.doctor.machine import machine_findings
from pyhudi.doctor.store import store_findings
from pyhudi.environment import SYSTEM
from pyhudi.storage.open import open_storage


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


def check_folder(
    path: str | os.PathLike[str], *, fix: bool = False, hudi_options: HudiOptions | None = None
) -> pa.Table:
    """Why a folder cannot be opened as a table, where `HudiTable.for_path` fails; no rows if it is none, or is whole.

    Found are damaged properties, and files of a table without their `.hoodie`. With `fix`, properties are put from the
    copy that a change of them left, or with a checksum that fits the name; the rows say what is wrong after that. Those
    that were written in the last minutes stay, as a writer may be at work.

    Columns: as of `Inspect.findings`. Cost: three reads and some listings; with `fix` the table lock, and a put.
    """
    options = known_options(hudi_options, call="check_folder")
    storage = open_storage(table_path(path, options), options)
    if fix:
        mend_folder(storage, SYSTEM)
    return findings_table(folder_findings(storage, SYSTEM), storage.uri)
