"""Who takes part: writers and readers of Hudi tables behind two small interfaces."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from tests.interop.life import Operation, Turn
from tests.interop.shapes import SCHEMA, Shape
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle

import pyhudi


class Writer(Protocol):
    """Makes one commit on the table at a path, which the first commit also creates."""

    def write(self, path: Path, shape: Shape, turn: Turn) -> None: ...


class Reader(Protocol):
    """Gives every row and column of the table at a path, meta columns too."""

    def read(self, path: Path) -> pa.Table: ...


def operation_options(turn: Turn) -> dict[str, str]:
    """What of a commit goes into the options of Spark's writer."""
    options = {"hoodie.datasource.write.operation": turn.operation.value}
    if turn.operation is Operation.DELETE_PARTITION:
        options["hoodie.datasource.write.partitions.to.delete"] = ",".join(turn.partition_paths)
    return options


class JvmHudi:
    """Real Hudi, as writer and as reader."""

    def __init__(self, oracle: Oracle) -> None:
        self._oracle = oracle

    def __str__(self) -> str:
        return f"Hudi {self._oracle.release}"

    def write(self, path: Path, shape: Shape, turn: Turn) -> None:
        options = {**shape.jvm_options, **operation_options(turn)}
        if RELEASE_OF_TABLE_VERSION[shape.table_version] != self._oracle.release:
            options["hoodie.write.table.version"] = str(shape.table_version)
            options["hoodie.write.auto.upgrade"] = "false"
        self._oracle.write(path, turn.rows, options)

    def read(self, path: Path) -> pa.Table:
        return self._oracle.read(path)


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

    def read(self, path: Path) -> pa.Table:
        return pyhudi.HudiTable.for_path(str(path)).to_arrow()

    def _open(self, path: Path, shape: Shape) -> pyhudi.HudiTable:
        if (path / ".hoodie").exists():
            return pyhudi.HudiTable.for_path(str(path))
        return pyhudi.HudiTable.create(
            str(path),
            schema=SCHEMA,
            record_key=shape.record_key,
            partition_by=shape.partition_by or None,
            ordering_fields="ts",
            name="t",
            table_version=shape.table_version,
            hudi_options=shape.style_options,
        )


class PyhudiSave:
    """Ourselves, through the door that takes Hudi's own options: what `df.write.format("hudi")` runs."""

    def __str__(self) -> str:
        return "pyhudi.save"

    def write(self, path: Path, shape: Shape, turn: Turn) -> None:
        options = {**shape.options, **operation_options(turn), "hoodie.write.table.version": str(shape.table_version)}
        pyhudi.save(turn.rows, str(path), options=options, mode="append")


class HudiRs:
    """hudi-rs, an implementation in Rust; it only reads."""

    def __str__(self) -> str:
        return "hudi-rs"

    def read(self, path: Path) -> pa.Table:
        from hudi import HudiTableBuilder

        batches = HudiTableBuilder.from_base_uri(str(path)).build().read()
        return pa.Table.from_batches([pa.record_batch(batch) for batch in batches])
