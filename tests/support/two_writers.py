"""Two writers at once: the second one's whole write runs while the first is between its begin and its commit."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.hooks import once
from tests.support.table_builder import THREE_ROWS, TableBuilder
from tests.support.tables import StepClock, environment, open_table, rows

import pyhudi
from pyhudi.storage.protocol import Storage
from pyhudi.testing.faults import FaultStorage

Write = Callable[[pyhudi.HudiTable], object]


CLOCK = StepClock()
"""Both writers look at one clock, as they would on one machine."""


def upsert(*values: tuple[int, str, int, str], **options: str) -> Write:
    return lambda table: table.upsert(rows(*values), hudi_options=options)


WRITES: dict[str, Write] = {
    "update oslo": upsert((1, "oslo", 9, "u")),
    "update rome": upsert((3, "rome", 9, "u")),
    "new key in oslo": upsert((5, "oslo", 1, "n")),
    "new key in rome": upsert((5, "rome", 1, "n")),
    "new key in bern": upsert((5, "bern", 1, "n")),
    "same key, new, in bern": upsert((5, "bern", 2, "m")),
    "global new key in bern": upsert((5, "bern", 1, "n"), **{"hoodie.index.type": "GLOBAL_SIMPLE"}),
    "insert into bern": lambda t: t.insert(rows((5, "bern", 1, "n"))),
    "insert into bern, no duplicates": lambda t: t.insert(
        rows((5, "bern", 1, "n")), hudi_options={"hoodie.datasource.insert.dup.policy": "drop"}
    ),
    "bulk insert into bern": lambda t: t.bulk_insert(rows((6, "bern", 1, "n"))),
    "bulk insert into rome": lambda t: t.bulk_insert(rows((6, "rome", 1, "n"))),
    "delete in oslo": lambda t: t.delete(rows((1, "oslo", 0, ""))),
    "delete in rome": lambda t: t.delete(rows((3, "rome", 0, ""))),
    "drop oslo": lambda t: t.delete_partition("city=oslo"),
    "drop rome": lambda t: t.delete_partition("city=rome"),
    "overwrite oslo": lambda t: t.insert_overwrite(rows((7, "oslo", 1, "o"))),
    "overwrite bern": lambda t: t.insert_overwrite(rows((7, "bern", 1, "o"))),
    "overwrite all": lambda t: t.insert_overwrite_table(rows((7, "oslo", 1, "o"))),
}


def prepared(version: int = 9, **options: str) -> Storage:
    return TableBuilder(version, options=options).insert(*THREE_ROWS).build()


def opened(storage: Storage) -> pyhudi.HudiTable:
    return open_table(storage, env=environment(CLOCK))


def with_other_in_between(inner: Storage, other: Write) -> FaultStorage:
    """A store on which `other` runs, once, when the first write is about to say what it will change."""
    is_beginning = once(
        lambda name, path: name == "put_if_absent" and path.endswith("inflight"), lambda: other(opened(inner))
    )
    return FaultStorage(inner, before=is_beginning)
