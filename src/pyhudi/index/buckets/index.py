"""Bucket indexes: the file group of a record key, stored or new, is computed, and nothing is looked up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from pyhudi.config.bucket_rules import BucketRules
from pyhudi.config.enums import BucketEngine


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
            one = found.setdefault(number, (replace(self, number=number, rules=None), set()))
            one[1].add(path)
        return found
