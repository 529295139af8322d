"""Procedures that look at files: sizes of folders, damaged base files, file sizes by commit."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from decimal import ROUND_HALF_UP, Decimal

from pyhudi.format.file_names import parse_data_file
from pyhudi.services.repair.parquet_files import delete_invalid_files, invalid_parquet_files
from pyhudi.sql.procedures.call_context import CallContext, Given
from pyhudi.sql.procedures.declared import (
    FILTER,
    TABLE,
    Rows,
    flag,
    needed,
    number,
    procedure,
    text,
)
from pyhudi.sql.procedures.file_slices import full_path
from pyhudi.sql.procedures.globs import glob_pattern
from pyhudi.storage.protocol import FileInfo, Storage
from pyhudi.table.lister import list_data_files

_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


@procedure(
    needed("path"),
    flag("is_sub", False),
    flag("sort", True),
    number("limit", 100),
    FILTER,
    answer="path_num bigint, file_num bigint, storage_size bigint, storage_size(unit) string, storage_path string, "
    "space_consumed bigint, quota bigint, space_quota bigint",
    limits_rows=True,
)
def show_fs_path_detail(context: CallContext, given: Given) -> Rows:
    """How many folders, files and bytes are below a path; with is_sub => true, for each entry of it."""
    storage = context.storage(given.text("path"))
    if given.flag("is_sub"):
        listing = storage.list_folder("")
        rows = [_detail(storage, folder, storage.list_recursive(folder)) for folder in listing.folders]
        rows += [
            (0, 1, info.size, _shown(info.size), _uri(storage, info.path), info.size, -1, -1) for info in listing.files
        ]
    else:
        rows = [_detail(storage, "", storage.list_recursive(""))]
    return sorted(rows, key=lambda row: (-row[2], row[4])) if given.flag("sort") else rows


def _detail(storage: Storage, folder: str, files: Sequence[FileInfo]) -> tuple[int, int, int, str, str, int, int, int]:
    folders = {folder}
    for info in files:
        parent = info.path.rpartition("/")[0]
        while parent != folder and parent not in folders:
            folders.add(parent)
            parent = parent.rpartition("/")[0]
    size = sum(info.size for info in files)
    return len(folders), len(files), size, _shown(size), _uri(storage, folder), size, -1, -1


def _uri(storage: Storage, path: str) -> str:
    return f"{storage.uri.rstrip('/')}/{path}".rstrip("/")


def _shown(size: int) -> str:
    """A size with its unit."""
    unit = next((at for at in range(len(_UNITS)) if size < 1024 ** (at + 1)), len(_UNITS) - 1)
    scaled = Decimal(size) / 1024**unit
    return f"{size}B" if not unit else f"{scaled.quantize(Decimal('0.01'), ROUND_HALF_UP)}{_UNITS[unit]}"


@procedure(
    needed("path"),
    number("parallelism", 100),
    number("limit", 100),
    flag("needDelete", False),
    text("partitions", ""),
    text("instants", ""),
    FILTER,
    answer="path string",
    limits_rows=True,
)
def show_invalid_parquet(context: CallContext, given: Given) -> Rows:
    """The base files that cannot be opened; needDelete => true deletes them, if no write needs them."""
    handle = context.by_path(given.text("path"), {}).handle
    found = invalid_parquet_files(handle.state, handle.engine, given.words("partitions"), given.words("instants"))
    if given.flag("needDelete"):
        delete_invalid_files(handle.service_call(None, call="show_invalid_parquet"), found)
    return [(full_path(handle.state, path),) for path in found]


@procedure(
    TABLE,
    text("partition_path", ""),
    number("limit", 10),
    answer="commit_time string, min bigint, 10th double, 50th double, avg double, 95th double, max bigint, "
    "num_files int, std_dev double",
)
def stats_file_sizes(context: CallContext, given: Given) -> Rows:
    """The distribution of file sizes in bytes, for each instant that wrote files and for all.

    Sizes of all data files by the instant in their names, newest first; then those of all together.
    """
    table = context.table(given).handle.state
    glob = given.text_or_none("partition_path")
    wanted = None if glob is None else glob_pattern(glob)
    sizes: dict[str, list[int]] = defaultdict(list)
    for info in list_data_files(table.storage):
        name = parse_data_file(info.name)
        if name is not None and (wanted is None or wanted.fullmatch(info.path.rpartition("/")[0])):
            sizes[name.instant_time].append(info.size)
    newest = sorted(sizes, reverse=True)[: max(given.number("limit") - 1, 0)]
    for instant in newest:
        yield (instant, *_distribution(sizes[instant]))
    if sizes:
        yield ("ALL", *_distribution(size for of_instant in sizes.values() for size in of_instant))


def _distribution(found: Iterable[int]) -> tuple[int, float, float, float, float, int, int, float]:
    sizes = sorted(found)
    mean = sum(sizes) / len(sizes)
    variance = sum((size - mean) ** 2 for size in sizes) / max(len(sizes) - 1, 1)
    ten, fifty, most = (_percentile(sizes, share) for share in (0.1, 0.5, 0.95))
    return sizes[0], ten, fifty, mean, most, sizes[-1], len(sizes), math.sqrt(variance)


def _percentile(values: Sequence[int], share: float) -> float:
    """Between the two values around a share of them."""
    position = share * (len(values) + 1)
    at = math.floor(position)
    if at < 1:
        return float(values[0])
    if at >= len(values):
        return float(values[-1])
    return values[at - 1] + (position - at) * (values[at] - values[at - 1])
