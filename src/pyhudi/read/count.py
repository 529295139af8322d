"""Counts the rows of a scan: from footers where they are enough, otherwise by reading."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from pyhudi.format.schema.meta_columns import COMMIT_TIME
from pyhudi.io.base_file import read_footer
from pyhudi.read.arrow import FOOTERS_AT_ONCE, read_batches
from pyhudi.read.conditions import Where
from pyhudi.read.scan import ScanPlan
from pyhudi.read.slices import missing_files_named
from pyhudi.storage.protocol import Storage


def count_rows(storage: Storage, plan: ScanPlan, where: Where) -> int:
    """The number of rows of a scan, in bounded memory.

    Cost: without a condition, one footer per base file that has no logs. Slices with logs, and all slices where rows
    must be read (a condition, or a range of time), are read with one column besides those that this needs.
    """
    if not plan.schema.names:
        return 0
    if where is not None or plan.commit_times is not None:
        return _counted(storage, plan, where)
    files = [
        scan_slice.files.base
        for scan_slice in plan.slices
        if scan_slice.files.base is not None and not scan_slice.files.logs
    ]
    with missing_files_named(storage), ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
        in_files = sum(pool.map(lambda path: read_footer(storage, path).rows, files))
    with_logs = replace(plan, slices=tuple(scan_slice for scan_slice in plan.slices if scan_slice.files.logs))
    return in_files + _counted(storage, with_logs, None)


def _counted(storage: Storage, plan: ScanPlan, where: Where) -> int:
    names = plan.schema.names
    narrow = COMMIT_TIME if COMMIT_TIME in names else names[0]
    return sum(batch.num_rows for batch in read_batches(storage, plan, [narrow], where))
