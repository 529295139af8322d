"""The mutants of tables with buckets: lock-less writers, and resizes of rings."""

from __future__ import annotations

import threading
import uuid
from typing import Any

from tests.support.mutants.catalogue import CRASH, mutant
from tests.support.mutants.tools import always, nothing

from pyhudi.format.buckets import new_bucket_file_id
from pyhudi.services.clustering import execute
from pyhudi.table import hash_rings
from pyhudi.transaction import transaction
from pyhudi.transaction.conflicts import check, footprint
from pyhudi.transaction.conflicts.table import Own
from pyhudi.write import bucket_placement


def own_file_id(bucket: int) -> str:
    """Each writer thinks of an id by itself: the simulator runs it in a thread of its own."""
    return new_bucket_file_id(bucket, str(uuid.uuid5(uuid.NAMESPACE_OID, threading.current_thread().name)))


def no_pending_resizes(*_: Any) -> dict[str, Any]:
    return {}


_TO_OLD_BUCKETS = (
    (bucket_placement, bucket_placement.pending_resizes, no_pending_resizes),
    (transaction, transaction.check_clusterings, nothing),
    (check, check.check_clusterings, nothing),
)

BUCKETS = (
    mutant(
        "lock-less writers name a new file group each for itself",
        "the keys of a bucket would be in two file groups",
        (bucket_placement, bucket_placement.shared_bucket_file_id, own_file_id),
        at="lockless-whole-mor8/lock/new+insert",
        breaks="K4 K13",
    ),
    mutant(
        "lock-less writers give way like others",
        "readers merge what they append at the same time",
        (footprint.Footprint, vars(footprint.Footprint)["as_own"], property(lambda _: Own.WRITE)),
        at="lockless-whole-mor8/lock/update+update",
        breaks="K13",
    ),
    mutant(
        "rows go to the old buckets alone while a resize is pending",
        "the resize copies the rows of its plan, and replaces the old buckets",
        *_TO_OLD_BUCKETS,
        (execute, execute.forgotten_heirs, always(frozenset())),
        (check, check.forgotten_heirs, always(frozenset())),
        at="ringed-whole-mor8/lock/update+cluster",
        breaks="K1",
    ),
    mutant(
        "a ring counts before its resize is completed",
        "rows would be in buckets that nobody sees, for ever if the resize is undone",
        (hash_rings, hash_rings._counts, always(True)),
        at="ringed-whole-mor8/lock/update+cluster",
        within=CRASH,
        breaks="K13",
    ),
    mutant(
        "a resize does not store its ring",
        "later writes would go to buckets that were replaced",
        (execute, execute.put_rings, nothing),
        at="ringed-whole-mor8/lock/update+cluster",
        breaks="K13",
    ),
)
