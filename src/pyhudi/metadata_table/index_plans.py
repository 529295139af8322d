"""Plans of index builds: what a build that died, or is at work, was asked for.

A plan is a file beside the timeline. While it is there, nothing of the index counts, and all writers go on as if it was
not there; so no writer waits for a build, and who asks for the index again goes on with the plan. JVM Hudi's pending
`indexing` instant would ask all writers to write into the unfinished index. The instant of a build of ours is put
when it ends.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final

from pyhudi.errors import CorruptDataError, NotFoundError
from pyhudi.storage.protocol import Storage

FOLDER: Final = ".hoodie/.aux/.indexing"
_BYTES_MAX: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexPlan:
    """An index that is to be built.

    Attributes:
        partition: its partition of the metadata table.
        begun: when it was asked for, as an instant time.
        number: the instant of the metadata table under which the newest run writes, as a number. Each run has a larger
            one, so that files of a run that counts as dead and goes on are never those of a later run.
    """

    partition: str
    begun: str
    number: int = -1


def put_plan(storage: Storage, plan: IndexPlan) -> None:
    """Store a plan in place of the one before, under the table lock. Cost: one put."""
    storage.put(_path(plan.partition), json.dumps(asdict(plan)).encode())


def load_plan(storage: Storage, partition: str) -> IndexPlan | None:
    """The plan of an index; None if there is none. Raises `CorruptDataError` for a damaged one. Cost: one read."""
    path = _path(partition)
    try:
        values = json.loads(storage.read(path, length=_BYTES_MAX))
        return IndexPlan(partition=partition, begun=str(values["begun"]), number=int(values["number"]))
    except NotFoundError:
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise CorruptDataError("the plan of an index build is damaged: drop the index", path=path) from error


def delete_plan(storage: Storage, partition: str) -> None:
    """Remove a plan: the index is built, or given up. Cost: one delete."""
    storage.delete(_path(partition))


def pending_plans(storage: Storage) -> Iterator[IndexPlan]:
    """All plans, by partition. Cost: one listing, and a read for each."""
    for info in storage.list_folder(FOLDER).files:
        plan = load_plan(storage, info.name.removesuffix(".json"))
        if plan is not None:
            yield plan


def _path(partition: str) -> str:
    return f"{FOLDER}/{partition}.json"
