"""Rows of a source that are copied, and record keys that occur twice: for bootstraps and for later partitions."""

from __future__ import annotations

import enum
import warnings
from collections.abc import Sequence

from pyhudi.config.option import OptionWarning
from pyhudi.config.options_bootstrap import BootstrapMode
from pyhudi.engine.protocol import spread
from pyhudi.errors import RecordKeyError
from pyhudi.format.metadata.commit import WriteStat, stats_by_partition
from pyhudi.storage.protocol import FileInfo
from pyhudi.tasks.bootstrap import CopySourceTask, RepeatedKeysTask, copy_source, find_repeated_keys
from pyhudi.tasks.bulk_insert import SplitTask
from pyhudi.transaction.markers.announcing import TaskMarkers
from pyhudi.write.bootstrap.plan import BootstrapPlan
from pyhudi.write.bootstrap.progress import Progress
from pyhudi.write.job import WriteJob


class KeyCheck(enum.Enum):
    """What a record key that occurs twice in a partition of the source does."""

    NONE = "nothing: keys are not compared"
    WARN = "a warning tells of it, and the table is made"
    REFUSE = "it is an error, and nothing is visible"


def copied_files(
    job: WriteJob, plan: BootstrapPlan, instant_time: str, markers: TaskMarkers, progress: Progress | None = None
) -> list[WriteStat]:
    """Copy the rows of the partitions with mode full_record. Cost: as a bulk insert of them.

    `progress`: what is finished of them already, and where tasks note more; None: they do not.
    """
    finished = {} if progress is None else progress.file_ids
    split = SplitTask(
        target=job.target(instant_time, markers),
        keys=job.keys,
        seed=job.environment.ids.uuid(),
        spill_folder=job.config.memory.spill_folder,
    )
    partitions = (plan.source.files[path] for path in plan.partitions_of(BootstrapMode.FULL_RECORD))
    left = [[info for info in partition if info.path not in finished] for partition in partitions]
    shares = _shares(list(filter(None, left)), job.config.files.max_file_size, job.config.bootstrap.parallelism)
    tasks = [
        CopySourceTask(
            split,
            tuple(plan.source.source_file(info) for info in share),
            None if progress is None else progress.notes(number, share),
        )
        for number, share in enumerate(shares)
    ]
    size = sum(file.size for task in tasks for file in task.files)
    results = job.engine.map(copy_source, tasks, size_bytes=size, description="copy the source")
    return [*(() if progress is None else progress.stats), *(stat for result in results for stat in result)]


def check_unique(job: WriteJob, stats: Sequence[WriteStat], check: KeyCheck) -> None:
    """Look for record keys that occur twice in the files of a partition. Cost: their keys, sorted.

    Raises `RecordKeyError` if the check refuses them.
    """
    if check is KeyCheck.NONE:
        return
    by_partition = stats_by_partition(stats)
    tasks = [
        RepeatedKeysTask(
            job.table.storage.spec,
            tuple(stat.path for stat in group if stat.path),
            sum(stat.file_size_in_bytes or 0 for stat in group),
            job.config.memory.spill_folder,
        )
        for group in by_partition.values()
    ]
    size = sum(task.size for task in tasks)
    found = job.engine.map(find_repeated_keys, tasks, size_bytes=size, description="compare record keys")
    wrong = {path: repeated for path, repeated in zip(by_partition, found, strict=True) if repeated.rows}
    if not wrong:
        return
    first, repeated = next(iter(wrong.items()))
    rows = sum(repeated.rows for repeated in wrong.values())
    text = (
        "record keys occur more than once in a partition of the source: an upsert of such a key would not know which "
        "row to change; name more columns as the record key, or remove the rows"
    )
    if check is KeyCheck.REFUSE:
        raise RecordKeyError(text, partition_path=first, rows=rows, partitions=len(wrong), keys=repeated.examples)
    warnings.warn(
        f"{text}: {rows} rows in {len(wrong)} partitions, in {first!r} with the keys {', '.join(repeated.examples)}",
        OptionWarning,
        stacklevel=2,
    )


def _shares(partitions: Sequence[Sequence[FileInfo]], bytes_max: int, parallelism: int) -> list[list[FileInfo]]:
    """The files that each task copies: so many shares of about one size, or parts of a partition.

    With `parallelism` 0 a part has about the maximum size of a file.
    """
    if parallelism:
        files = [info for partition in partitions for info in partition]
        sizes = {number: info.size for number, info in enumerate(files)}
        return [[files[number] for number in share] for share in spread(sizes, parallelism)]
    shares: list[list[FileInfo]] = []
    for partition in partitions:
        shares.append([])
        for info in partition:
            if shares[-1] and sum(file.size for file in shares[-1]) + info.size > bytes_max:
                shares.append([])
            shares[-1].append(info)
    return shares
