"""Bucket indexes: the file group of a record key is computed; how many buckets a table has that does not say it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyhudi.config.enums import BucketEngine
from pyhudi.config.options_buckets import NUMBER_KEY, BucketRules
from pyhudi.engine.protocol import TASKS_PER_CORE, Engine, TaskContext, spread
from pyhudi.errors import ConfigError
from pyhudi.format.buckets import BUCKETS_MAX, bucket_of_file_id, divisor_of, simple_hashes
from pyhudi.format.schema.meta_columns import RECORD_KEY
from pyhudi.io.base_file import read_batches
from pyhudi.storage.open import open_spec
from pyhudi.storage.protocol import StorageSpec
from pyhudi.table.file_slice import FileSlice

_FILES_PER_PARTITION = 3
_KEYS_PER_FILE = 64


@dataclass(frozen=True, slots=True)
class ShowTask:
    """Read some keys of base files: path and bucket of each, by partition."""

    storage: StorageSpec
    fields: tuple[str, ...]
    files: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """What the keys of one file show: every number of buckets that divides `divisor` puts them there."""

    partition_path: str
    divisor: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketIndex:
    """The bucket index of a table, as far as its properties and the options of a write say it.

    `number`: of buckets per partition, for the consistent engine of new partitions; None: the files have to show it.
    `is_stored`: the table says it, so that no file need be asked. `fields`: whose values are hashed. `key_fields`: of
    how many fields record keys are made. `rules`: other numbers of some partitions, of the simple engine.
    """

    engine: BucketEngine
    number: int | None
    is_stored: bool
    fields: tuple[str, ...]
    key_fields: int
    rules: BucketRules | None = None

    def in_partitions(self, partition_paths: Iterable[str]) -> dict[int | None, tuple[BucketIndex, set[str]]]:
        """By number of buckets, the partitions that have it, and the index as it is for them; None: not said."""
        found: dict[int | None, tuple[BucketIndex, set[str]]] = {}
        for path in partition_paths:
            named = None if self.rules is None else self.rules.number_of(path)
            number = self.number if named is None else named
            # A rule of an option that the table does not store is checked against the files.
            _, paths = found.setdefault(number, (replace(self, number=number, rules=None), set()))
            paths.add(path)
        return found


def number_of_buckets(
    engine: Engine, storage: StorageSpec, index: BucketIndex, slices: Mapping[str, Sequence[FileSlice]]
) -> int:
    """The number of buckets in these partitions, which is what the index says if it says one.

    Cost: nothing if the table stores the number; otherwise the first keys of up to three base files per partition.

    Raises:
        ConfigError: the files show another number than the options name, or none is named and they do not show one.
    """
    highest = max((_bucket(file_slice) for group in slices.values() for file_slice in group), default=-1)
    if index.is_stored and index.number is not None:
        if highest >= index.number:
            raise _contradiction(index.number, f"the file group of bucket {highest} says")
        return index.number
    shown = _shown(engine, storage, index, slices)
    if index.number is not None:
        wrong = [partition.partition_path for partition in shown if partition.divisor % index.number]
        if wrong or highest >= index.number:
            evidence = f"keys in partition {wrong[0]!r} say" if wrong else f"the file group of bucket {highest} says"
            raise _contradiction(index.number, evidence)
        return index.number
    divisor = math.gcd(*(partition.divisor for partition in shown))
    possible = [number for number in _divisors(divisor) if number > highest]
    if len(possible) != 1:
        raise ConfigError(
            f"the table has buckets, and neither its properties nor its files say how many: set {NUMBER_KEY} to the "
            "number that it was written with",
            at_least=highest + 1,
        )
    return possible[0]


def show_divisors(context: TaskContext, task: ShowTask) -> tuple[Shown, ...]:
    """What the files of a task show. Memory: some keys of each."""
    del context
    storage = open_spec(task.storage)
    found = []
    for partition_path, path, bucket in task.files:
        keys = next(read_batches(storage, path, columns=[RECORD_KEY], batch_rows=_KEYS_PER_FILE), None)
        if keys is not None and keys.num_rows:
            found.append(Shown(partition_path, divisor_of(simple_hashes(keys.column(RECORD_KEY), task.fields), bucket)))
    return tuple(found)


def _shown(
    engine: Engine, storage: StorageSpec, index: BucketIndex, slices: Mapping[str, Sequence[FileSlice]]
) -> list[Shown]:
    files = []
    for partition_path, group in slices.items():
        with_base = [file_slice for file_slice in group if file_slice.base is not None]
        # The largest buckets rule out most numbers.
        for file_slice in sorted(with_base, key=_bucket)[-_FILES_PER_PARTITION:]:
            assert file_slice.base is not None
            files.append((partition_path, file_slice.base.path, _bucket(file_slice)))
    shares = spread(dict.fromkeys(range(len(files)), 1), engine.parallelism * TASKS_PER_CORE)
    tasks = [ShowTask(storage, index.fields, tuple(files[number] for number in share)) for share in shares]
    results = engine.map(show_divisors, tasks, size_bytes=len(files) * 100_000, description="ask files for buckets")
    return [partition for result in results for partition in result]


def _bucket(file_slice: FileSlice) -> int:
    bucket = bucket_of_file_id(file_slice.file_id)
    if bucket is None:
        raise ConfigError(
            "the table has a simple bucket index, and a file group that is no bucket: JVM Hudi cannot write it either",
            file_group=f"{file_slice.partition_path}/{file_slice.file_id}",
        )
    return bucket


def _divisors(number: int) -> list[int]:
    """All divisors of a number up to 2^31, and none of 0, which every number divides."""
    if number == 0:
        return []
    small = [n for n in range(1, math.isqrt(number) + 1) if number % n == 0]
    return sorted(n for n in {*small, *(number // n for n in small)} if n <= BUCKETS_MAX)


def _contradiction(number: int, evidence: str) -> ConfigError:
    return ConfigError(
        f"the table was not written with {number} buckets: {evidence} otherwise; leave {NUMBER_KEY} out, or name the "
        "number that it was written with",
        number=number,
    )
