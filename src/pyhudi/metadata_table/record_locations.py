"""Reading the record index: the file group of each of some record keys."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.hfile.indexed import sorted_keys
from pyhudi.format.metadata_table.keys import file_group_of
from pyhudi.format.metadata_table.locations import locations_of
from pyhudi.format.metadata_table.schema import KEY, RECORD_INDEX_COLUMN
from pyhudi.metadata_table.file_group import GroupSlice
from pyhudi.metadata_table.folders import partition_folder
from pyhudi.metadata_table.lookup import Wanted, read_slice
from pyhudi.metadata_table.partitions.maintained import is_by_partition
from pyhudi.metadata_table.partitions.record_index_by_partition import places_of
from pyhudi.metadata_table.state import MetadataState
from pyhudi.storage.protocol import Storage
from pyhudi.table.metadata_partitions import RECORD_INDEX


@dataclass(frozen=True, slots=True)
class Locations:
    """The file groups of some keys.

    Attributes:
        number: for each key the number of its file group among `groups`; -1 for a key that is not in the table.
        groups: partition path and file id of each.
    """

    number: npt.NDArray[np.int64]
    groups: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class LocationReader:
    """The file groups of the record index, as they are at one moment. Picklable, for tasks.

    `is_by_partition`: partitions of the table have file groups of their own.
    """

    groups: tuple[GroupSlice, ...]
    is_by_partition: bool = False

    def groups_of(self, partition_path: str, keys: pa.Array) -> npt.NDArray[np.int32]:
        """The number of the file group of the index that may have each key of a partition; -1: none has."""
        if not self.is_by_partition:
            return file_group_of(keys, len(self.groups))
        place = places_of([group.file_id for group in self.groups], (partition_path,)).get(partition_path)
        if place is None:
            return np.full(len(keys), -1, np.int32)
        return (place[0] + file_group_of(keys, place[1])).astype(np.int32)

    def find(self, storage: Storage, group: int, keys: pa.Array) -> Locations:
        """The locations of keys that are in one file group of the index; keys may repeat.

        Cost: the logs of the file group, and index and blocks with wanted keys of its base file. Raises
        `CorruptDataError` for damage.
        """
        wanted = Wanted(keys=sorted_keys(pc.unique(keys)))
        records = read_slice(storage, self.groups[group], RECORD_INDEX_COLUMN, wanted).combine_chunks()
        at = pc.index_in(keys, value_set=records.column(KEY).combine_chunks())
        is_found = at.is_valid().to_numpy(zero_copy_only=False)
        number = np.full(len(keys), -1, dtype=np.int64)
        if not is_found.any():
            return Locations(number)
        payloads = records.column(RECORD_INDEX_COLUMN).combine_chunks()
        partitions, ids = locations_of(payloads, path=partition_folder(RECORD_INDEX))
        # Both dictionaries have one entry for each file group, in the same order.
        number[is_found] = ids.indices.to_numpy()[at.drop_null().to_numpy()]
        return Locations(number, tuple(zip(partitions.dictionary.to_pylist(), ids.dictionary.to_pylist(), strict=True)))


def location_reader(state: MetadataState) -> LocationReader:
    """The reader of the record index of a table that has one. Cost: a listing, see `MetadataState.slices`."""
    return LocationReader(state.slices(RECORD_INDEX), is_by_partition(state.table))
