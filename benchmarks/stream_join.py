"""What joining rows costs whose partners come late, by changes of tables and by streams of Spark: `make bench-claims`.

    python benchmarks/stream_join.py [ORDERS]

1,000,000 orders have a row of their driver and one of their passenger, which comes up to ten ticks later, over 60
ticks. `tables`: `examples/late_partners.py`, after each tick, without Spark. `streams`: an inner join of two streams
of Spark with the same rows, whose state has no watermark, as any order may still get its partner; its result goes to
Parquet files. Each is a process of its own, and prints processor seconds of all its processes, in all and of the last
ten ticks, and the bytes that it keeps beside its result: of the tables of both sides, or of the state.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from growth import processor_seconds

import pyhudi

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "examples"))
example = importlib.import_module("late_partners")

TICKS, LATEST = 60, 10


def ticks(orders: int) -> Iterator[tuple[pa.Table, pa.Table]]:
    """The rows of drivers and of passengers that come with each tick."""
    chance = np.random.default_rng(7)
    numbers = np.arange(orders)
    of_driver = numbers * (TICKS - LATEST) // orders
    of_passenger = of_driver + chance.integers(0, LATEST, orders)
    for tick in range(TICKS):
        yield tuple(
            side_of(numbers[came == tick], schema, tick)
            for came, schema in ((of_driver, example.DRIVERS), (of_passenger, example.PASSENGERS))
        )


def side_of(numbers: np.ndarray, schema: pa.Schema, tick: int) -> pa.Table:
    keys = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 9, "0")
    who = pa.array(numbers % 9_973).cast(pa.string())
    return pa.table([keys, who, pa.array(np.full(len(numbers), tick, np.int64))], schema=schema)


def by_tables(orders: int, folder: Path) -> None:
    example.create(str(folder))
    measured = spent(lambda pair: tick_of_tables(folder, *pair), orders)
    found = pyhudi.HudiTable.for_path(folder / "trips").scan().count()
    say("tables", measured, sum(size_of(folder / side) for side in example.SIDES), found)


def tick_of_tables(folder: Path, drivers: pa.Table, passengers: pa.Table) -> None:
    for side, rows in zip(example.SIDES, (drivers, passengers), strict=True):
        if rows.num_rows:
            pyhudi.HudiTable.for_path(folder / side).upsert(rows)
    example.update(str(folder))


def by_streams(orders: int, folder: Path) -> None:
    # The state is in the heap: with 1,000,000 orders it fills 1 GiB, Spark's default, after 36 ticks.
    config = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "4g"}
    spark = pyhudi.spark_session(master="local[2]", config=config)
    for side in example.SIDES:
        (folder / side).mkdir()
    drivers, passengers = (
        spark.readStream.schema(f"trip string, {column} string, ts long").parquet(str(folder / side)).drop("ts")
        for side, column in zip(example.SIDES, example.TRIPS.names[1:], strict=True)
    )
    joined = drivers.join(passengers, "trip").writeStream.format("parquet")
    query = joined.option("checkpointLocation", str(folder / "checkpoint")).start(str(folder / "trips"))

    def tick_of_streams(pair: tuple[pa.Table, pa.Table]) -> None:
        for side, rows in zip(example.SIDES, pair, strict=True):
            if rows.num_rows:
                pq.write_table(rows, folder / f"{side}.parquet")
                # Spark must not see half a file.
                (folder / f"{side}.parquet").rename(folder / side / f"{rows['ts'][0]}.parquet")
        query.processAllAvailable()

    measured = spent(tick_of_streams, orders)
    query.stop()
    found = spark.read.parquet(str(folder / "trips")).count()
    spark.stop()
    say("streams", measured, size_of(folder / "checkpoint" / "state"), found)


def spent(run: Callable[[tuple[pa.Table, pa.Table]], None], orders: int) -> tuple[float, float]:
    """Processor seconds of all ticks, and of the last ten."""
    began, at_last = processor_seconds(), 0.0
    for tick, pair in enumerate(ticks(orders)):
        if tick == TICKS - 10:
            at_last = processor_seconds()
        run(pair)
    ended = processor_seconds()
    return ended - began, ended - at_last


def say(part: str, measured: tuple[float, float], kept: int, rows: int) -> None:
    cpu, cpu_of_last = (round(seconds, 1) for seconds in measured)
    print(json.dumps({"join": part, "cpu": cpu, "cpu_last_ten": cpu_of_last, "kept_bytes": kept, "rows": rows}))


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


PARTS = {"tables": by_tables, "streams": by_streams}


if __name__ == "__main__":
    if len(sys.argv) > 2:
        with tempfile.TemporaryDirectory() as place:
            PARTS[sys.argv[2]](int(sys.argv[1]), Path(place))
    else:
        for name in PARTS:
            orders = sys.argv[1] if len(sys.argv) > 1 else "1000000"
            subprocess.run([sys.executable, __file__, orders, name], check=True)
