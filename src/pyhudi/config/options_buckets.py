"""Options of bucket indexes."""

# ruff: noqa: RUF009 - option() declares a field, as dataclasses.field does
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pyhudi.config.enums import BucketEngine
from pyhudi.config.java_patterns import java_pattern
from pyhudi.config.option import option
from pyhudi.config.parsers import Parser, column_names, fraction, integer, one_of

INDEX_TYPE_KEY: Final = "hoodie.index.type"
ENGINE_KEY: Final = "hoodie.index.bucket.engine"
NUMBER_KEY: Final = "hoodie.bucket.index.num.buckets"
RULES_KEY: Final = "hoodie.bucket.index.partition.expressions"
HASH_FIELDS_KEY: Final = "hoodie.bucket.index.hash.field"
DEFAULT_BUCKETS: Final = 256
"""The number of buckets of a new table whose options do not say it, as in JVM Hudi."""


@dataclass(frozen=True, slots=True)
class BucketRules:
    """A regular expression and a number of buckets each; the first that is found in a partition path counts.

    `text`: the rules as the option has them.
    """

    text: str

    def number_of(self, partition_path: str) -> int | None:
        """The number of buckets of a partition; None where no rule is for it."""
        return next((number for pattern, number in _rules_of(self.text) if pattern.search(partition_path)), None)


def read_bucket_rules(text: str) -> BucketRules:
    """Rules from the text of the option. Raises `ValueError` where it has none, or one that Java may read otherwise."""
    rules = BucketRules(text.strip())
    _rules_of(rules.text)
    return rules


def _rules_of(text: str) -> list[tuple[re.Pattern[str], int]]:
    found = []
    for rule in text.split(";"):
        pattern, number = rule.strip().split(",")
        if int(number) < 1:
            raise ValueError(rule)
        found.append((java_pattern(pattern.strip()), int(number)))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketOptions:
    """Buckets: with `hoodie.index.type=BUCKET` the hash of a record key is the number of its file group."""

    engine: BucketEngine | None = option(
        ENGINE_KEY,
        parse=one_of(BucketEngine),
        default=None,
        doc="SIMPLE (the default of a new table): a fixed number of buckets in each partition. CONSISTENT_HASHING, "
        "only merge-on-read: a ring of buckets in each partition. A table keeps it.",
    )
    number: int | None = option(
        NUMBER_KEY,
        parse=integer(minimum=1, unit="buckets"),
        default=None,
        doc="The number of buckets in each partition; with CONSISTENT_HASHING of a new partition. Default for a new "
        "table: 256. A table made by pyhudi keeps it in its properties. For others it is taken from their files, and a "
        "write must name it if they do not show it; another number than they show is refused.",
    )
    rules: BucketRules | None = option(
        RULES_KEY,
        parse=Parser(read_bucket_rules, "regular expressions with a number of buckets each, as `2026-1[12],64;x=.*,8`"),
        default=None,
        doc="Other numbers of buckets for some partitions, with the engine SIMPLE: `expression,number` separated by "
        "`;`. The first expression that is found in the partition path counts. A table made by pyhudi keeps them; for "
        "others every write must name them.",
    )
    hash_fields: tuple[str, ...] | None = option(
        HASH_FIELDS_KEY,
        parse=column_names(),
        default=None,
        doc="The record key fields whose values are hashed: all by default. A table made by pyhudi keeps them; for "
        "others every write must name them.",
    )
    max_number: int | None = option(
        "hoodie.bucket.index.max.num.buckets",
        parse=integer(minimum=1, unit="buckets"),
        default=None,
        doc="CONSISTENT_HASHING: a clustering splits large buckets until a partition has so many. Default: the number "
        "of buckets that the partition began with, so that nothing is split.",
    )
    min_number: int | None = option(
        "hoodie.bucket.index.min.num.buckets",
        parse=integer(minimum=1, unit="buckets"),
        default=None,
        doc="CONSISTENT_HASHING: a clustering merges small neighbours until a partition has so few buckets. Default: "
        "the number of buckets that the partition began with.",
    )
    split_threshold: float = option(
        "hoodie.bucket.index.split.threshold",
        parse=fraction(up_to_one=False),
        default=2.0,
        doc="CONSISTENT_HASHING: a bucket is split if its files have more than so many times the bytes of "
        "`hoodie.parquet.max.file.size`.",
    )
    merge_threshold: float = option(
        "hoodie.bucket.index.merge.threshold",
        parse=fraction(up_to_one=False),
        default=0.2,
        doc="CONSISTENT_HASHING: neighbours are merged if the files of each have at most so many times the bytes of "
        "`hoodie.parquet.max.file.size`.",
    )


def bucket_problems(buckets: BucketOptions) -> list[str]:
    """The contradictions among the options of resizes."""
    least, most = buckets.min_number, buckets.max_number
    if least is not None and most is not None and least > most:
        return [f"hoodie.bucket.index.min.num.buckets is {least}, more than the maximum of {most}"]
    return []
