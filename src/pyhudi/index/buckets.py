"""Bucket indexes: the file group of a record key, stored or new, is computed, and nothing is looked up."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.config.enums import BucketEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketIndex:
    """The bucket index of a table, as far as its properties and the options of a write say it.

    `number`: of buckets per partition, for the consistent engine of new partitions; None: the files have to show it.
    `is_stored`: the table says it, so that no file need be asked. `fields`: whose values are hashed. `key_fields`: of
    how many fields record keys are made.
    """

    engine: BucketEngine
    number: int | None
    is_stored: bool
    fields: tuple[str, ...]
    key_fields: int
