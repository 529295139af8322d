"""Makes the inputs: TPC-H lineitem by `tpchgen-cli`, and the batches that are written on top of it.

Everything is derived from the scale factor and a fixed seed, so two machines measure the same rows.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from inputs import (
    DATA_COLUMNS,
    KEY,
    ORDERING,
    PARTITION,
    SMALL_BATCH_ROWS,
    SMALL_BATCHES,
    SMALL_TABLE_ROWS,
    WARM_UP_BATCHES,
    Inputs,
)

SEED = 20_240_131
LOADED_AT_MS = 1_700_000_000_000
DAY_MS = 86_400_000
BASE_FILES = 4
ROW_GROUP_ROWS = 100_000
WARM_UP_ROWS = 2_000


def prepare(folder: Path, scale_factor: float, generator: Path) -> tuple[Inputs, Inputs]:
    """The inputs of a scale factor and those of the warm-up round; made on first use, kept in `folder`."""
    measured, warm_up = Inputs(folder / f"sf{scale_factor:g}"), Inputs(folder / "warm-up")
    if not (measured.folder.exists() and warm_up.folder.exists()):
        rows = _lineitem(folder, scale_factor, generator)
        if not measured.folder.exists():
            _write_inputs(measured, rows, small_batches=SMALL_BATCHES)
        if not warm_up.folder.exists():
            _write_inputs(warm_up, rows.slice(0, WARM_UP_ROWS), small_batches=WARM_UP_BATCHES)
    return measured, warm_up


def _lineitem(folder: Path, scale_factor: float, generator: Path) -> pa.Table:
    """lineitem with record key and ordering column, in the order of the keys."""
    scratch = folder / "generated"
    scratch.mkdir(parents=True, exist_ok=True)
    command = [
        str(generator),
        "parquet",
        "-s",
        f"{scale_factor:g}",
        "--tables",
        "lineitem",
        "--output-dir",
        str(scratch),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    rows = pq.read_table(scratch / "lineitem.parquet")
    shutil.rmtree(scratch)
    rows = rows.cast(pa.schema([pa.field(field.name, _plain(field.type)) for field in rows.schema]))
    order_number = pc.utf8_lpad(rows["l_orderkey"].cast(pa.string()), 10, "0")
    key = pc.binary_join_element_wise(order_number, rows["l_linenumber"].cast(pa.string()), ",")
    updated_at = pa.array(np.arange(rows.num_rows) + LOADED_AT_MS)
    return rows.append_column(KEY, key).append_column(ORDERING, updated_at).select(DATA_COLUMNS)


def _plain(kind: pa.DataType) -> pa.DataType:
    """Not every peer takes Arrow's string views."""
    return pa.string() if kind == pa.string_view() else kind


def _write_inputs(inputs: Inputs, rows: pa.Table, *, small_batches: int) -> None:
    """Write all inputs into a folder that appears only when it is complete."""
    draft = Inputs(inputs.folder.with_name(inputs.folder.name + ".part"))
    shutil.rmtree(draft.folder, ignore_errors=True)
    random = np.random.default_rng(SEED)
    count = rows.num_rows
    _write_folder(rows, draft.base, BASE_FILES)
    _write(_changed(rows.take(_sample(random, count, count // 10)), days=1), draft.upsert_random)
    _write(_changed(rows.slice(count - count // 100), days=2), draft.upsert_newest)
    doomed = rows.take(_sample(random, count, count // 100))
    _write(_changed(doomed, days=3).select([KEY, PARTITION, ORDERING]), draft.delete)
    (draft.folder / "lookup_key.txt").write_text(rows[KEY][count // 2].as_py())
    _write_small(draft, rows, random, small_batches)
    draft.folder.rename(inputs.folder)


def _write_small(inputs: Inputs, rows: pa.Table, random: np.random.Generator, batches: int) -> None:
    half = SMALL_BATCH_ROWS // 2
    loaded = min(SMALL_TABLE_ROWS, rows.num_rows - half * batches)
    _write_folder(rows.slice(0, loaded), inputs.small_base, 2)
    for number in range(batches):
        old = _changed(rows.take(_sample(random, loaded, half)), days=number + 1)
        new = rows.slice(loaded + number * half, half)
        _write(pa.concat_tables([old, new]), inputs.small_batch(number))


def _sample(random: np.random.Generator, count: int, size: int) -> pa.Array:
    return pa.array(random.choice(count, size, replace=False))


def _changed(rows: pa.Table, *, days: int) -> pa.Table:
    """New versions of the rows: one more of everything, some days later."""
    quantity = pc.add(rows["l_quantity"], pa.scalar(1)).cast(rows.schema.field("l_quantity").type)
    updated_at = pc.add(rows[ORDERING], days * DAY_MS)
    rows = rows.set_column(rows.schema.get_field_index("l_quantity"), "l_quantity", quantity)
    return rows.set_column(rows.schema.get_field_index(ORDERING), ORDERING, updated_at)


def _write_folder(rows: pa.Table, folder: Path, files: int) -> None:
    size = -(-rows.num_rows // files)
    for number in range(files):
        _write(rows.slice(number * size, size), folder / f"part-{number}.parquet")


def _write(rows: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path, row_group_size=ROW_GROUP_ROWS, store_schema=False)
