"""Random actions on a small table, for indexes of the metadata table that must follow all of them."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa
from tests.support.tables import DELETE_FLAG, SCHEMA, environment

import pyhudi
from pyhudi.engine.local import LocalEngine
from pyhudi.engine.spilled_rows import SpillSettings
from pyhudi.metadata_table.partitions.protocol import Source
from pyhudi.table.state import TableState

_ACTIONS = ("upsert", "upsert", "flagged", "delete", "insert", "overwrite", "drop", "compact", "cluster")
FLAGGED = SCHEMA.append(DELETE_FLAG)


def act(chance: random.Random, table: pyhudi.HudiTable, step: int, notes: Sequence[str | None] = ("x",)) -> None:
    """One random action on keys 0 to 39, which stay in their partitions if the index is not global."""
    moves = "GLOBAL" in table.handle.options["hoodie.index.type"]
    batch = [
        (
            number,
            chance.choice(["oslo", "rome"]) if moves else city_of(number),
            chance.randrange(20),
            chance.choice(notes),
        )
        for number in chance.sample(range(40), chance.randint(1, 12))
    ]
    action = chance.choice(_ACTIONS)
    if step == 0:
        table.insert(flagged(*((number, city_of(number), 5, "x") for number in range(20))))
    elif action == "flagged":
        table.upsert(flagged(*batch, deleted=True))
    elif action == "delete":
        table.delete(flagged(*batch).select(["id", "city"]))
    elif action == "overwrite":
        table.insert_overwrite(flagged(*batch))
    elif action == "drop" and step % 3 == 0:
        table.delete_partition(["city=rome"])
    elif action == "compact" and table.handle.state.config.table_type.value == "MERGE_ON_READ":
        table.services.compact()
    elif action == "cluster":
        table.services.cluster(hudi_options={"hoodie.clustering.plan.strategy.small.file.limit": "1000000000"})
    else:
        table.upsert(flagged(*batch))


def city_of(number: int) -> str:
    return "oslo" if number % 3 else "rome"


def flagged(*values: tuple[int, str, int, str | None], deleted: bool = False) -> pa.Table:
    columns = zip(*values, strict=True)
    batch = pa.table([pa.array(each, field.type) for each, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
    return batch.append_column(DELETE_FLAG, pa.array([deleted] * batch.num_rows, pa.bool_()))


def source_of(table: TableState) -> Source:
    return Source(table, environment(), SpillSettings(), LocalEngine(parallelism=1))
