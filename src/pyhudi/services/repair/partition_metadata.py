"""Partition metafiles: which folders with data lack theirs, and putting them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyhudi.format.file_names import parse_data_file
from pyhudi.format.metadata.partition import PARTITION_METADATA_FILE, encode_partition_metadata
from pyhudi.services.frame.service import ServiceCall
from pyhudi.storage.protocol import Storage
from pyhudi.table.features import check_writable
from pyhudi.table.lister import list_data_files
from pyhudi.transaction.locks.table_lock import table_lock


@dataclass(frozen=True, slots=True)
class Metafiles:
    """The metafiles in the folder of a partition, by their form."""

    as_text: bool
    as_base_file: bool

    @property
    def is_marked(self) -> bool:
        """Whether JVM Hudi sees the folder as a partition."""
        return self.as_text or self.as_base_file


def partition_metafiles(storage: Storage) -> Mapping[str, Metafiles]:
    """The folders with data files, and which metafiles they have. Cost: a listing of the table."""
    names: dict[str, set[str]] = {}
    data: set[str] = set()
    for info in list_data_files(storage):
        folder, _, name = info.path.rpartition("/")
        if parse_data_file(name) is not None:
            data.add(folder)
        elif name.startswith(PARTITION_METADATA_FILE):
            names.setdefault(folder, set()).add(name)
    return {
        folder: Metafiles(
            PARTITION_METADATA_FILE in names.get(folder, ()),
            bool(names.get(folder, set()) - {PARTITION_METADATA_FILE}),
        )
        for folder in sorted(data | set(names))
    }


def add_partition_metafiles(call: ServiceCall) -> tuple[str, ...]:
    """Put the metafiles that are missing; the partitions. Cost: the table lock, a listing, a put for each.

    They name the newest completed write, as those of JVM Hudi's repair do.
    """
    check_writable(call.table)
    storage = call.table.storage
    with table_lock(storage, call.environment, wait_ms=call.settings.lock_wait_ms) as lock:
        writes = call.table.reload().timeline.completed_writes
        newest = writes[-1].requested_time if writes else "00000000000000"
        missing = [folder for folder, files in partition_metafiles(storage).items() if not files.is_marked]
        for folder in missing:
            lock.check_held()
            depth = folder.count("/") + 1 if folder else 0
            path = f"{folder}/{PARTITION_METADATA_FILE}" if folder else PARTITION_METADATA_FILE
            storage.put(path, encode_partition_metadata(newest, depth))
    return tuple(missing)
