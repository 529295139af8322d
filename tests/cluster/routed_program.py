"""Application of `test_lost_in_routed_round.py`: `routed_program.py <master> <folder> <JSON of settings>`.

One topic of Kafka for two tables: tasks read it once, and Spark keeps the messages of both. In each round a task waits
until its executor is killed, as `lost_in_stage_program.py` says. Prints one line of JSON with what is there after each.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore", category=FutureWarning)

MESSAGES, PARTITIONS, CITIES, MESSAGES_OF_A_PART = 4_000, 4, 2, 250
READ, STAGE, WRITE = "read topic", "stage rows", "write files"
#: Of each round: where tasks wait to be killed (what the engine runs, and the moment).
ROUNDS = [[(READ, "middle")], [(STAGE, "middle")], [(WRITE, "middle"), (WRITE, "end")]]
TABLES = {"a": ("a", "COPY_ON_WRITE"), "rest": ("*", "MERGE_ON_READ")}


def main(master: str, folder: Path, settings: dict[str, Any]) -> list[dict[str, Any]]:
    import lost_in_stage_program

    import pyhudi
    from pyhudi.spark import engine
    from pyhudi.storage.local import LocalStorage
    from pyhudi.streamer import StreamerConfig, run_many
    from pyhudi.streamer.sources import topic_parts
    from pyhudi.table.state import load_table

    engine.IN_PROCESS_BYTES_MAX = 0
    topic_parts.MESSAGES_OF_A_PART = MESSAGES_OF_A_PART
    waiting = lost_in_stage_program.Waiting(folder)
    waiting.wrap(engine.SparkEngine)
    wrap_reading(waiting)
    spark = pyhudi.spark_session(master=master, config=settings["config"])
    spark.sparkContext.addPyFile(lost_in_stage_program.__file__)

    def table(name: str) -> StreamerConfig:
        values, table_type = TABLES[name]
        conf = {
            "bootstrap.servers": settings["servers"],
            "hoodie.streamer.source.kafka.topic": settings["topic"],
            "hoodie.streamer.source.kafka.route.field": "kind",
            "hoodie.streamer.source.kafka.route.values": values,
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "city",
            "hoodie.datasource.write.table.type": table_type,
            "hoodie.table.name": name,
        }
        return StreamerConfig(
            folder / name,
            hoodie_conf=conf,
            source_class="JsonKafkaSource",
            source_ordering_fields="ts",
            spark=spark,
        )

    told = []
    for number, places in enumerate(ROUNDS):
        send(settings, number)
        waiting.places = {place: folder / f"kill-{number}-{' '.join(place)}" for place in places}
        results = run_many([table(name) for name in TABLES])
        told.append({"errors": [repr(found.error) for found in results if found.error], "tables": {}})
        for name in TABLES:
            stored = spark.read.format("hudi").load(str(folder / name))
            sums = stored.selectExpr("count(*)", "count(distinct id)", f"count_if(ts = {number})", "sum(value)").first()
            commits = len(load_table(LocalStorage(folder / name)).timeline.completed_writes)
            told[-1]["tables"][name] = [*sums, commits]
        told[-1]["kept"] = len(spark.sparkContext._jsc.getPersistentRDDs())
    spark.stop()
    return told


def send(settings: dict[str, Any], number: int) -> None:
    """The messages of a round: at first all records, then every second one again."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": settings["servers"]})
    for key in range(0, MESSAGES, 2 if number else 1):
        message = {
            "id": key,
            "city": f"c{key % CITIES}",
            "kind": "ab"[key // 2 % 2],
            "ts": number,
            "value": key + number,
        }
        producer.produce(settings["topic"], json.dumps(message).encode(), partition=key // 4 % PARTITIONS)
    assert producer.flush(60) == 0


def wrap_reading(waiting: Any) -> None:
    """Let a task that reads the topic wait after it has read a part."""
    from lost_in_stage_program import waiting_after_one

    from pyhudi.spark import kept

    kept_rows = kept.kept_rows

    def waiting_rows(spark: Any, parts: Any, reader_of: Any, divide: Any, description: str) -> Any:
        file = waiting.places.get((READ, "middle"))

        def divided(part: Any) -> Iterator[Any]:
            return waiting_after_one(iter(divide(part)), file)

        return kept_rows(spark, parts, reader_of, divided, description)

    kept.kept_rows = waiting_rows


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3]))) + "\n")
