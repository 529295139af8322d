"""Folders of a table whose Parquet files are not Hudi's: partitions from before the folder was a table.

Hudi does not know them. Rows that a write put beside them would be read, and theirs would not, so that a later read of
the folder as plain Parquet has both, with two versions of a record.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Collection, Mapping

from pyhudi.errors import InvalidRequestError
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.metadata.partition import PARTITION_METADATA_FILE
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.lister import list_data_files

_log = logging.getLogger("pyhudi")


def plain_partitions(storage: Storage) -> Mapping[str, tuple[FileInfo, ...]]:
    """The Parquet files that are not Hudi's, by folder, of the folders that are no partitions of the table.

    Folders and files whose names begin with a dot or an underscore are left out. Cost: a recursive listing.
    """
    files: dict[str, list[FileInfo]] = defaultdict(list)
    known: set[str] = set()
    for info in list_data_files(storage):
        folder = info.path.rpartition("/")[0]
        if info.name == PARTITION_METADATA_FILE:
            known.add(folder)
        elif _is_plain(info.name) and not any(part.startswith((".", "_")) for part in folder.split("/")):
            files[folder].append(info)
    return {folder: tuple(found) for folder, found in sorted(files.items()) if folder not in known}


def check_not_plain(storage: Storage, partition_path: str) -> None:
    """`check_names_not_plain` for a folder that was not listed. Cost: one request; one listing for a new partition."""
    if partition_path and storage.info(f"{partition_path}/{PARTITION_METADATA_FILE}") is None:
        check_names_not_plain(partition_path, storage.list_names(partition_path))


def check_names_not_plain(partition_path: str, names: Collection[str]) -> None:
    """Raise `InvalidRequestError` if a folder with these files has Parquet files, and is no partition of the table."""
    if not partition_path or PARTITION_METADATA_FILE in names:
        return
    plain = next(filter(_is_plain, names), None)
    if plain is not None:
        raise InvalidRequestError(
            "the folder of this partition has Parquet files that are not Hudi's: its rows are no records of the "
            "table, and cannot be updated or deleted; move the files elsewhere, and bulk_insert their rows",
            partition_path=partition_path,
            file=plain,
        )


def warn_of_plain_partitions(storage: Storage) -> None:
    """Log a warning for a folder that becomes a table beside plain partitions, whose rows reads leave out.

    Only the first folder of each level is looked into. Cost: a listing per level.
    """
    path = ""
    while True:
        listing = storage.list_folder(path)
        if (plain := next((info for info in listing.files if _is_plain(info.name)), None)) is not None:
            _log.warning(
                "the folder of the new table has Parquet files that are not Hudi's, whose rows reads leave out: read "
                "with hoodie.pyhudi.read.plain.partitions=true, or bootstrap the folder [table=%r, file=%r]",
                storage.uri,
                plain.path,
            )
            return
        below = [folder for folder in listing.folders if not folder.rpartition("/")[2].startswith((".", "_"))]
        if not below:
            return
        path = below[0]


def _is_plain(name: str) -> bool:
    return name.endswith((".parquet", ".parq")) and not name.startswith((".", "_")) and parse_data_file(name) is None
