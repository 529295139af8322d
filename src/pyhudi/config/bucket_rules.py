"""Rules for the number of buckets of partitions: `hoodie.bucket.index.partition.expressions`."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Final

_OF_JAVA_ALONE: Final = ("&&", "\\p", "\\P", "\\Q", "\\R", "\\h", "\\H", "\\v", "\\V", "\\X", "\\x", "(?")

_SET_IN_A_SET: Final = re.compile(r"\[[^\]]*\[")


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
        if any(each in pattern for each in _OF_JAVA_ALONE) or _SET_IN_A_SET.search(pattern) or int(number) < 1:
            raise ValueError(rule)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")  # a set in a set is one for Java
                found.append((re.compile(pattern.strip(), re.ASCII), int(number)))
        except (re.error, FutureWarning) as error:
            raise ValueError(rule) from error
    return found
