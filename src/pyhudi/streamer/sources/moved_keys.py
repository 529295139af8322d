"""Updates of a record key whose two changes, a delete and an insert, are not in one batch.

Debezium sends one after the other, and a batch may end between them. PostgreSQL does not send a large value that did
not change, and the insert takes it from the row that the delete has removed. So a delete is not the last of several
changes of a batch: it is put off, and is then the first one of the next batch. If it is alone there, the next batch
reads it again, and takes the value from the table as it was before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pyhudi.cdc.event_columns import DELETE
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.sources.apart import UnreadableError
from pyhudi.streamer.sources.kafka_offsets import Offsets

_AGAIN: Final = "again"


@dataclass(frozen=True, slots=True, kw_only=True)
class PutOff:
    """Messages of a batch that does not part a delete from its insert; `ends`: where it ends.

    `again`: the offsets of deletes that the next batch reads again, by partition.
    """

    messages: pa.Table
    ends: dict[int, int]
    again: Offsets


def put_off_deletes(messages: pa.Table, end: Offsets, decode: Callable[[pa.BinaryArray], pa.Table]) -> PutOff:
    """The messages without a delete that is the last of several in its partition.

    `messages`: those with a value, and of each partition in order. Cost: none; the last message of each is decoded.
    """
    partitions, offsets = (messages[name].to_numpy() for name in ("partition", "offset"))
    ends, again = dict(end), {}
    is_kept = np.ones(len(partitions), bool)
    for partition in np.unique(partitions).tolist():
        rows = np.flatnonzero(partitions == partition)
        last, offset = int(rows[-1]), int(offsets[rows[-1]])
        if not _is_delete(pa.concat_arrays(messages["value"].slice(last, 1).chunks), decode):
            continue
        if len(rows) > 1:
            ends[partition] = offset
            is_kept[last] = False
        else:
            again[partition] = offset
    return PutOff(messages=messages.filter(pa.array(is_kept)), ends=ends, again=again)


def of_silent_partitions(again: Offsets, messages: pa.Table) -> Offsets:
    """The deletes of partitions of which there are no messages with a value."""
    read = set(messages["partition"].unique().to_pylist())
    return {partition: offset for partition, offset in again.items() if partition not in read}


def _is_delete(value: pa.BinaryArray, decode: Callable[[pa.BinaryArray], pa.Table]) -> bool:
    try:
        rows = decode(value)
    except UnreadableError:
        return False  # the batch says so
    return "op" in rows.column_names and rows["op"][0].as_py() == DELETE


def deletes_again(after: Checkpoint) -> Offsets:
    """The offsets of the deletes, by partition, that the batch before this one ended with."""
    again: Mapping[str, int] = after.state_under("checkpoint").get(_AGAIN, {})
    return {int(partition): offset for partition, offset in again.items()}


def with_deletes(state: Mapping[str, Any], again: Offsets) -> dict[str, Any]:
    """What the checkpoint remembers, with the deletes that the next batch reads again."""
    return dict(state) if not again else {**state, _AGAIN: {str(partition): at for partition, at in again.items()}}
