"""The records in the logs of a file slice, as Arrow: every version that counts, in merge order.

A block does not count if its write is not completed, or if a command block excludes it. Of a log compaction and the
blocks that it replaced, only the log compaction counts, at their position.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine.spilled_rows import SpillSettings, temporary_folder, typed_errors_of_disk
from pyhudi.errors import CorruptDataError, SchemaMismatchError
from pyhudi.format.avro.records import decode_avro_records
from pyhudi.format.hfile.reader import decode_hfile_records
from pyhudi.format.keys.generator import KeyGenerator
from pyhudi.format.log.blocks import BlockType, LogBlock
from pyhudi.format.log.delete_block_decode import decode_delete_block
from pyhudi.format.schema.avro_arrow import avro_to_arrow, normalise
from pyhudi.format.schema.evolution import align, match_columns
from pyhudi.format.schema.meta_columns import PARTITION_PATH, RECORD_KEY
from pyhudi.format.schema.stored_names import NamesByWrite, StoredNames
from pyhudi.io.log.block_filter import BlockFilter
from pyhudi.io.log.scan import LogReader, open_log
from pyhudi.io.parquet_batches import bounded_batches, open_parquet
from pyhudi.merge.control_columns import BY_COMMIT_TIME, COLUMNS, DELETED
from pyhudi.merge.pairs import as_mask
from pyhudi.merge.rules import OPERATION, MergeRules
from pyhudi.storage.protocol import Storage

_PARQUET_ROWS = 1_000_000
IS_DELETED = "_hoodie_is_deleted"
"""A boolean column: a row with true deletes its record."""
_DELETE_OPERATION = "D"


@dataclass(frozen=True, slots=True)
class BlockPlace:
    """The position of a block: its log, and the offset of its content there."""

    path: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LogVersions:
    """Versions of records, oldest first: the wanted columns, then the control columns of `merge_versions`.

    `rows_of`: their blocks, in this order, and the number of rows of each; `written_by`: the write of each block.
    `column_sets`: the sets of columns that the
    numbers in the control column `COLUMNS` stand for. `instants`: their writes. `blocks`, `corrupt_blocks` and
    `rollback_blocks` are counts of all blocks that were read.
    """

    rows: pa.Table
    rows_of: Mapping[BlockPlace, int] = field(default_factory=dict)
    written_by: tuple[str, ...] = ()
    instants: frozenset[str] = frozenset()
    column_sets: tuple[frozenset[str], ...] = ()
    blocks: int = 0
    corrupt_blocks: int = 0
    rollback_blocks: int = 0


@dataclass(frozen=True)
class LogContent:
    """A block that counts, the log that it is in, and its bytes."""

    path: str
    block: LogBlock
    data: pa.Buffer

    @cached_property
    def parquet(self) -> Any:
        """The reader of a Parquet block, cached so that its footer is parsed once."""
        return open_parquet(pa.BufferReader(self.data))


@dataclass(frozen=True, slots=True)
class _Found:
    """A block, and the open log that it is in."""

    path: str
    reader: LogReader
    block: LogBlock

    @property
    def place(self) -> BlockPlace:
        return BlockPlace(self.path, self.block.content_offset)

    def content(self) -> LogContent:
        return LogContent(self.path, self.block, self.reader.content(self.block))


@dataclass(slots=True)
class _Blocks:
    """The blocks of a slice while they are filtered: those of each write, in the order of first appearance."""

    by_instant: dict[str, list[_Found]] = field(default_factory=lambda: defaultdict(list))
    rolled_back: set[str] = field(default_factory=set)
    total: int = 0
    corrupt: int = 0
    rollbacks: int = 0


def version_schema(schema: pa.Schema) -> pa.Schema:
    """The columns of `schema`, all nullable, and the control columns."""
    return pa.schema(
        [
            *(field.with_nullable(True) for field in schema),
            pa.field(DELETED, pa.bool_()),
            pa.field(BY_COMMIT_TIME, pa.bool_()),
            pa.field(COLUMNS, pa.int32()),
        ]
    )


def read_log_versions(
    storage: Storage,
    paths: Sequence[str],
    schema: pa.Schema,
    rules: MergeRules,
    *,
    blocks: BlockFilter,
    spill: SpillSettings,
    names: NamesByWrite | None,
    keys: KeyGenerator | None = None,
) -> LogVersions:
    """All versions that the logs at `paths` hold, in merge order.

    `schema`: the wanted columns, among them the record key and the columns that the rules need. `keys` makes the record
    keys of a table whose files do not have them, from these columns. `names`: see `SliceFiles`.

    Cost: one or two requests per log, and one per large block. Memory: the records, up to the limit of `spill`; the
    rest is in a mapped file.

    Raises `CorruptDataError` for a block whose content does not parse and `UnsupportedFeatureError` for one of an
    unknown kind, naming path and offset; and `SchemaMismatchError` for a block whose rows do not fit the table.
    """
    with _scanned(storage, paths, blocks) as found:
        column_sets: list[frozenset[str]] = []
        rows_of: dict[BlockPlace, int] = {}
        written_by: list[str] = []

        def decoded() -> Iterator[pa.RecordBatch]:
            for counted in _in_merge_order(found):
                rows_of[counted.place] = 0
                written_by.append(counted.block.instant_time)
                for batch in decode_versions(counted.content(), schema, rules, column_sets, keys, names):
                    rows_of[counted.place] += batch.num_rows
                    yield batch

        rows = gather(decoded(), version_schema(schema), spill)
    return LogVersions(
        rows=rows,
        rows_of=rows_of,
        written_by=tuple(written_by),
        instants=frozenset(found.by_instant),
        column_sets=tuple(column_sets),
        blocks=found.total,
        corrupt_blocks=found.corrupt,
        rollback_blocks=found.rollbacks,
    )


def read_log_contents(storage: Storage, paths: Sequence[str], blocks: BlockFilter) -> list[LogContent]:
    """The bytes of the blocks that `read_log_versions` reads, in the same order. Cost: the logs, also in memory."""
    with _scanned(storage, paths, blocks) as found:
        return [counted.content() for counted in _in_merge_order(found)]


def list_log_blocks(storage: Storage, paths: Sequence[str], blocks: BlockFilter) -> list[tuple[BlockPlace, LogBlock]]:
    """The blocks that `read_log_versions` reads, in the same order, without their contents.

    Cost: one or two requests per log, and one per large block.
    """
    with _scanned(storage, paths, blocks) as found:
        return [(counted.place, counted.block) for counted in _in_merge_order(found)]


@contextmanager
def _scanned(storage: Storage, paths: Sequence[str], blocks: BlockFilter) -> Iterator[_Blocks]:
    """The blocks of some logs, which stay open while the block runs, so that contents can be read."""
    with ExitStack() as stack:
        yield _scan([(path, stack.enter_context(open_log(storage, path))) for path in paths], blocks)


def _scan(logs: Sequence[tuple[str, LogReader]], counting: BlockFilter) -> _Blocks:
    found = _Blocks()
    for path, reader in logs:
        for block in reader.blocks():
            found.total += 1
            if block.kind is BlockType.CORRUPT:
                counting.check_damage(path, block)
                found.corrupt += 1
                continue
            counting.check_writer(path, block)
            if block.kind is BlockType.COMMAND:
                found.rollbacks += 1
                found.rolled_back.add(block.target_instant_time or "")
            elif counting.counts(block.instant_time, path):
                found.by_instant[block.instant_time].append(_Found(path, reader, block))
    for instant_time in found.rolled_back:
        found.by_instant.pop(instant_time, None)
    return found


def _in_merge_order(found: _Blocks) -> Iterator[_Found]:
    """Blocks by write, in the order of the logs; a log compaction takes the position of the blocks that it replaced."""
    compacted_by = {
        replaced: instant_time
        for instant_time, blocks in found.by_instant.items()
        for counted in blocks
        for replaced in counted.block.compacted_instants
    }
    finals = _finals(compacted_by, found)
    done: set[str] = set()
    for instant_time in found.by_instant:
        final = finals.get(instant_time, instant_time)
        if final not in done:
            done.add(final)
            yield from (counted for counted in found.by_instant[final] if counted.block.kind is not BlockType.CDC_DATA)


def _finals(compacted_by: Mapping[str, str], found: _Blocks) -> dict[str, str]:
    """The last log compaction in the chain for each replaced write, in one pass over all of them."""
    finals: dict[str, str] = {}
    for start in compacted_by:
        chain, at = dict.fromkeys([start]), compacted_by[start]
        while at in compacted_by and at not in finals:
            if at in chain:
                block = found.by_instant[at][0]
                raise CorruptDataError(
                    "a log compaction names itself among the writes that it replaced",
                    path=block.path,
                    offset=block.block.offset,
                    instant=at,
                )
            chain[at] = None
            at = compacted_by[at]
        finals.update(dict.fromkeys(chain, finals.get(at, at)))
    return finals


def decode_versions(
    content: LogContent,
    schema: pa.Schema,
    rules: MergeRules,
    column_sets: list[frozenset[str]],
    keys: KeyGenerator | None = None,
    names: NamesByWrite | None = None,
) -> Iterator[pa.RecordBatch]:
    """The versions in a block, piece by piece, with the columns of `version_schema`; adds to `column_sets`.

    Errors: see `read_log_versions`.
    """
    if content.block.kind is BlockType.DELETE:
        yield _deleted(content, schema, rules)
        return
    of_write = None if names is None else names.of(content.block.instant_time)
    for rows in _data(content, schema, of_write):
        versions = _versions(content, rows, schema, rules, column_sets)
        yield versions if keys is None else with_record_keys(versions, keys)


def _versions(
    content: LogContent, rows: pa.RecordBatch, schema: pa.Schema, rules: MergeRules, column_sets: list[frozenset[str]]
) -> pa.RecordBatch:
    columns: int | None = None
    if content.block.is_partial:
        present = frozenset(rows.schema.names)
        if present not in column_sets:
            column_sets.append(present)
        columns = column_sets.index(present)
    deletes = delete_mask(rows, rules)
    try:
        aligned = align(rows, _nullable(schema))
    except SchemaMismatchError as error:
        raise SchemaMismatchError(
            f"the rows of a log block do not fit the table: {error.message}",
            path=content.path,
            offset=content.block.offset,
            **error.context,
        ) from error
    return _with_control(aligned, deletes, pa.repeat(False, rows.num_rows), columns)


def with_record_keys(rows: pa.RecordBatch, keys: KeyGenerator) -> pa.RecordBatch:
    """Rows of a table without meta columns, with the record keys that they would have."""
    at = rows.schema.get_field_index(RECORD_KEY)
    return rows.set_column(at, rows.schema.field(at), keys.record_keys(rows))


def _data(content: LogContent, schema: pa.Schema, of_write: StoredNames | None) -> Iterator[pa.RecordBatch]:
    """The wanted columns that the block has, in canonical types. `of_write`: what they are called in it."""
    names = [*schema.names, *(name for name in (IS_DELETED, OPERATION) if name not in schema.names)]
    if of_write is None:
        yield from _stored_data(content, names)
    else:
        yield from map(of_write.of_today, _stored_data(content, of_write.read_names(names)))


def _stored_data(content: LogContent, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The columns of these names that the block has."""
    block = content.block
    if block.kind is BlockType.PARQUET_DATA:
        yield from _parquet_data(content, set(names))
        return
    if block.schema is None:
        raise CorruptDataError("a data block has no schema", path=content.path, offset=block.offset)
    present = avro_to_arrow(block.schema, source=content.path).names
    decode = decode_avro_records if block.kind is BlockType.AVRO_DATA else decode_hfile_records
    yield decode(
        content.data,
        block.schema,
        columns=[present[at] for at in match_columns(names, present) if at is not None],
        path=content.path,
        offset=block.offset,
    )


def rows_of_block(content: LogContent) -> Iterator[pa.RecordBatch]:
    """The rows of a data block with the columns that it has, piece by piece; nothing for other blocks.

    Raises `CorruptDataError` for a block whose content does not parse, naming path and offset.
    """
    if content.block.kind.has_rows and content.block.kind is not BlockType.CDC_DATA:
        yield from _stored_data(content, avro_to_arrow(content.block.schema or "", source=content.path).names)


def _parquet_data(content: LogContent, names: Collection[str]) -> Iterator[pa.RecordBatch]:
    try:
        present = [name for name in content.parquet.schema_arrow.names if name in names]
        missing = content.parquet.metadata.num_rows
        if not present:
            yield pa.RecordBatch.from_struct_array(pa.repeat(pa.scalar({}, pa.struct([])), missing))
            return
        for rows in bounded_batches(pa.BufferReader(content.data), content.parquet, present, _PARQUET_ROWS):
            missing -= rows.num_rows
            yield align(rows, normalise(rows.schema.remove_metadata()))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise _damaged(content, str(error)[:200]) from error
    if missing:
        raise _damaged(content, "its row groups do not have as many rows as its footer says")


def _damaged(content: LogContent, cause: str) -> CorruptDataError:
    return CorruptDataError(
        "a data block of this log is damaged", path=content.path, offset=content.block.offset, cause=cause
    )


def _deleted(content: LogContent, schema: pa.Schema, rules: MergeRules) -> pa.RecordBatch:
    fields = [schema.field(name) for name in rules.ordering_fields]
    deletes = decode_delete_block(
        content.data,
        ordering_types=[field.type for field in fields],
        path=content.path,
        offset=content.block.content_offset,
    )
    count = len(deletes.record_keys)
    given: dict[str, pa.Array] = {RECORD_KEY: deletes.record_keys, PARTITION_PATH: deletes.partition_paths}
    if deletes.ordering is not None:
        given |= {field.name: column for field, column in zip(fields, deletes.ordering, strict=True)}
    wanted = _nullable(schema)
    rows = pa.RecordBatch.from_arrays(
        [given[field.name] if field.name in given else pa.nulls(count, field.type) for field in wanted], schema=wanted
    )
    return _with_control(rows, pa.repeat(True, count), deletes.by_commit_time, None)


def delete_mask(rows: pa.RecordBatch, rules: MergeRules) -> pa.Array:
    """Mask of the data rows that delete their records."""
    mask = np.zeros(rows.num_rows, dtype=bool)
    names = set(rows.schema.names)
    if IS_DELETED in names and pa.types.is_boolean(rows.schema.field(IS_DELETED).type):
        mask |= as_mask(rows.column(IS_DELETED))
    if OPERATION in names:
        mask |= as_mask(pc.equal(rows.column(OPERATION), _DELETE_OPERATION))
    if rules.delete_marker is not None and rules.delete_marker[0] in names:
        name, value = rules.delete_marker
        mask |= as_mask(pc.equal(rows.column(name).cast(pa.string()), value))
    return pa.array(mask)


def _with_control(
    rows: pa.RecordBatch, deleted: pa.Array, by_commit_time: pa.Array, columns: int | None
) -> pa.RecordBatch:
    sets = pa.array(np.full(rows.num_rows, columns or 0, dtype=np.int32), mask=np.full(rows.num_rows, columns is None))
    return pa.RecordBatch.from_arrays(
        [*rows.columns, deleted, by_commit_time, sets], schema=version_schema(rows.schema)
    )


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.with_nullable(True) for field in schema])


def gather(batches: Iterator[pa.RecordBatch], schema: pa.Schema, spill: SpillSettings) -> pa.Table:
    """All batches as one table: in memory up to the limit, beyond it in a mapped file.

    The file is unlinked before it is read, so nothing is left behind when the process ends.
    """
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size > spill.memory_bytes:
            break
    else:
        return pa.Table.from_batches(held, schema)
    with temporary_folder(spill.folder) as folder:
        path = str(folder / "log-records.arrow")
        with pa.OSFile(path, "wb") as sink:
            writer = pa.ipc.new_file(sink, schema)
            with typed_errors_of_disk(spill.folder):
                for batch in held:
                    writer.write_batch(batch)
            held.clear()
            for batch in batches:
                with typed_errors_of_disk(spill.folder):
                    writer.write_batch(batch)
            with typed_errors_of_disk(spill.folder):
                writer.close()
        return pa.ipc.open_file(pa.memory_map(path)).read_all()
