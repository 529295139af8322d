"""Who takes part: writers and readers of Hudi tables behind two small interfaces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from tests.interop.deviations import BEGIN_IS_INCLUDED
from tests.interop.life import Operation, Turn
from tests.interop.shapes import Shape
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

import pyhudi


class Writer(Protocol):
    """Makes one commit on the table at a path, which the first commit also creates."""

    def write(self, path: Path, shape: Shape, turn: Turn) -> None: ...


class Compactor(Writer, Protocol):
    """Also plans compactions, if there is something to compact, and runs what anybody has planned."""

    def schedule(self, path: Path, shape: Shape) -> None: ...

    def run(self, path: Path, shape: Shape, instant: str) -> None: ...


@dataclass(frozen=True, slots=True)
class ReadOptimized:
    """A question: the base files alone."""


@dataclass(frozen=True, slots=True)
class Changes:
    """A question: what was written after a position on the timeline, and until another one."""

    begin: str
    end: str | None = None


Question = ReadOptimized | Changes | None


class Reader(Protocol):
    """Answers a question with rows, every column of them, meta columns too. None asks for a snapshot."""

    def read(self, path: Path, question: Question = None) -> pa.Table: ...


def operation_options(turn: Turn) -> dict[str, str]:
    """What of a commit goes into the options of Spark's writer."""
    options = {"hoodie.datasource.write.operation": turn.operation.value}
    if turn.operation is Operation.DELETE_PARTITION:
        options["hoodie.datasource.write.partitions.to.delete"] = ",".join(turn.partition_paths)
    return options


class JvmHudi:
    """JVM Hudi, as writer and as reader."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def __str__(self) -> str:
        return f"Hudi {self._oracle.release}"

    def write(self, path: Path, shape: Shape, turn: Turn) -> None:
        options = {**shape.jvm_options, **operation_options(turn), **self._keep_version(shape)}
        self._oracle.write(path, turn.rows, options)

    def schedule(self, path: Path, shape: Shape) -> None:
        self._compaction(path, shape, "op => 'schedule'")

    def run(self, path: Path, shape: Shape, instant: str) -> None:
        self._compaction(path, shape, f"op => 'run', timestamp => {instant}")

    def _compaction(self, path: Path, shape: Shape, arguments: str) -> None:
        options = {
            "hoodie.metadata.enable": str(shape.metadata).lower(),
            "hoodie.compact.inline.max.delta.commits": "1",
            # Without it the procedure of 1.0.2 lets a late row take the place of a better one in the base file.
            "hoodie.datasource.write.precombine.field": "ts",
            **self._keep_version(shape),
        }
        joined = ",".join(f"{key}={value}" for key, value in options.items())
        self._oracle.sql(f"CALL run_compaction(path => '{path}', options => '{joined}', {arguments})")

    def _keep_version(self, shape: Shape) -> dict[str, str]:
        if RELEASE_OF_TABLE_VERSION[shape.table_version] == self._oracle.release:
            return {}
        return {"hoodie.write.table.version": str(shape.table_version), "hoodie.write.auto.upgrade": "false"}

    def read(self, path: Path, question: Question = None) -> pa.Table:
        prefix = "hoodie.datasource"
        match question:
            case ReadOptimized():
                options = {f"{prefix}.query.type": "read_optimized"}
            case Changes(begin, end):
                if self._oracle.release in BEGIN_IS_INCLUDED:
                    begin = str(int(begin) + 1)
                span = {f"{prefix}.read.begin.instanttime": begin, f"{prefix}.read.end.instanttime": end}
                options = {f"{prefix}.query.type": "incremental", **{k: v for k, v in span.items() if v is not None}}
            case None:
                options = {}
        return self._oracle.read(path, options)


class Pyhudi:
    """Ourselves, through the public API."""

    def __str__(self) -> str:
        return "pyhudi"

    def write(self, path: Path, shape: Shape, turn: Turn) -> None:
        table = self._open(path, shape)
        if turn.operation is Operation.DELETE_PARTITION:
            table.delete_partition(turn.partition_paths)
        elif turn.operation is Operation.DELETE:
            table.delete(turn.rows.select([*shape.record_key, *shape.partition_by]))
        else:
            method: Callable[[pa.Table], object] = getattr(table, turn.operation.value)
            method(turn.rows)

    def schedule(self, path: Path, shape: Shape) -> None:
        self._open(path, shape).services.schedule()

    def run(self, path: Path, shape: Shape, instant: str) -> None:
        assert self._open(path, shape).services.run(instant)["outcome"].to_pylist() == ["done"]

    def read(self, path: Path, question: Question = None) -> pa.Table:
        table = pyhudi.HudiTable.for_path(str(path))
        match question:
            case ReadOptimized():
                return table.scan(query_type="read_optimized").to_arrow()
            case Changes(begin, end):
                return table.changes(begin, end).to_arrow()
            case None:
                return table.scan().to_arrow()

    def _open(self, path: Path, shape: Shape) -> pyhudi.HudiTable:
        if (path / ".hoodie").exists():
            return pyhudi.HudiTable.for_path(str(path), hudi_options=shape.style_options)
        return pyhudi.HudiTable.create(
            str(path),
            schema=shape.schema,
            record_key=shape.record_key,
            partition_by=shape.partition_by or None,
            ordering_fields="ts",
            name="t",
            table_type="mor" if shape.merge_on_read else "cow",
            table_version=shape.table_version,
            hudi_options=shape.style_options,
        )


class PyhudiSave:
    """Ourselves, through the door that takes Hudi's own options: what `df.write.format("hudi")` runs."""

    def __str__(self) -> str:
        return "pyhudi.save"

    def write(self, path: Path, shape: Shape, turn: Turn) -> None:
        options = {**shape.options, **operation_options(turn), "hoodie.write.table.version": str(shape.table_version)}
        pyhudi.save(turn.rows, str(path), hudi_options=options, mode="append")


class HudiRs:
    """hudi-rs, an implementation in Rust; it only reads."""

    def __str__(self) -> str:
        return "hudi-rs"

    def read(self, path: Path, question: Question = None) -> pa.Table:
        from hudi import HudiQueryType, HudiReadOptions, HudiTableBuilder

        options = HudiReadOptions()
        match question:
            case ReadOptimized():
                options = options.with_hudi_option("hoodie.read.use.read_optimized.mode", "true")
            case Changes(begin, end):
                options = options.with_query_type(HudiQueryType.Incremental).with_start_timestamp(begin)
                options = options.with_end_timestamp(end) if end is not None else options
        batches = HudiTableBuilder.from_base_uri(str(path)).build().read(options)
        return pa.Table.from_batches([pa.record_batch(batch) for batch in batches])
