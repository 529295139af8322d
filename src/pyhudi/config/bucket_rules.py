"""Rules for the number of buckets of partitions: `hoodie.bucket.index.partition.expressions`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pyhudi.config.java_patterns import java_pattern


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
