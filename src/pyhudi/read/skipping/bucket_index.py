"""Skipping of file slices by a bucket index, for conditions that fix the record key: the hash of a key is its file."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.config.bucket_properties import StoredBuckets, stored_buckets
from pyhudi.config.enums import BucketEngine
from pyhudi.format.buckets import bucket_of_file_id, ring_hashes, simple_hashes
from pyhudi.format.hash_fields import differ_between_releases
from pyhudi.read.scan import ScanPlan
from pyhudi.read.skipping.column_statistics import IndexUse
from pyhudi.read.skipping.comparisons import Alternatives
from pyhudi.read.skipping.record_index import file_id_of, fixed_keys, key_columns
from pyhudi.table.hash_rings import load_ring
from pyhudi.table.hashing_config import has_hashing_config
from pyhudi.table.state import TableState

BUCKET_INDEX: Final = "bucket_index"
_RINGS_MAX: Final = 20
"""Of up to so many partitions the rings are read."""


def skip_by_buckets(
    table: TableState, plan: ScanPlan, asked: Alternatives | None, *, is_newest: bool
) -> tuple[ScanPlan, IndexUse | None]:
    """The plan with only the file slices of the buckets that keys of a condition are in, and what was done.

    `is_newest`: it is of the newest state. Nothing is left out if the condition does not fix the record key, or the
    table's properties do not say that it has buckets; then nothing is said of it. Cost: a listing; for rings one, and a
    read for each partition of the plan.
    """
    stored = stored_buckets(table.config.values, path=table.config.path)
    keys = None if stored is None else fixed_keys(table, plan.schema, asked)
    if stored is None or keys is None:
        return plan, None
    columns = key_columns(table)
    if not table.version.has_completion_times and pc.any(differ_between_releases(keys, len(columns))).as_py():
        return plan, IndexUse(BUCKET_INDEX, columns=columns, note="releases of JVM Hudi hash these keys differently")
    fields = stored.hash_fields or columns
    if stored.engine is BucketEngine.SIMPLE and has_hashing_config(table.storage):
        return plan, IndexUse(BUCKET_INDEX, columns=columns, note="a procedure of JVM Hudi numbered the buckets")
    if stored.engine is BucketEngine.SIMPLE:
        kept = _in_numbered(plan, keys, fields, stored)
    elif not is_newest:
        return plan, IndexUse(BUCKET_INDEX, columns=columns, note="the buckets of previous states are not looked up")
    else:
        kept = _in_rings(table, plan, keys, fields)
    slices = tuple(file_slice for file_slice, is_kept in zip(plan.slices, kept, strict=True) if is_kept)
    return replace(plan, slices=slices), IndexUse(BUCKET_INDEX, len(plan.slices) - len(slices), columns)


def _in_numbered(plan: ScanPlan, keys: pa.Array, fields: tuple[str, ...], stored: StoredBuckets) -> list[bool]:
    hashes = simple_hashes(keys, fields)
    wanted = {number: set(np.unique(hashes % number).tolist()) for number in _numbers(plan, stored) if number}
    kept = []
    for file_slice in plan.slices:
        number, bucket = stored.number_in(file_slice.partition_path), bucket_of_file_id(file_id_of(file_slice) or "")
        kept.append(number is None or bucket is None or bucket in wanted[number])
    return kept


def _numbers(plan: ScanPlan, stored: StoredBuckets) -> set[int | None]:
    return {stored.number_in(path) for path in {file_slice.partition_path for file_slice in plan.slices}}


def _in_rings(table: TableState, plan: ScanPlan, keys: pa.Array, fields: tuple[str, ...]) -> list[bool]:
    paths = sorted({file_slice.partition_path for file_slice in plan.slices})
    if len(paths) > _RINGS_MAX:
        return [True] * len(plan.slices)
    hashes = ring_hashes(keys, fields)
    left_out: set[tuple[str, str]] = set()
    for path in paths:
        ring, _ = load_ring(table.storage, table.timeline, path)
        wanted = set() if ring is None else set(ring.nodes_of(hashes).tolist())
        # A file group that is in no ring stays.
        nodes = () if ring is None else ring.nodes
        left_out |= {(path, node.file_id) for number, node in enumerate(nodes) if number not in wanted}
    return [(file_slice.partition_path, file_id_of(file_slice)) not in left_out for file_slice in plan.slices]
