"""Prices of requests to object stores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_DOLLARS: Final = {"PUT": 5e-6, "LIST": 5e-6, "GET": 4e-7, "HEAD": 4e-7, "DELETE": 0.0}
COMMITS_A_MONTH: Final = 30 * 24 * 60
"""Commits of 30 days at one a minute."""


def dollars_of(requests: Mapping[str, float]) -> float:
    """What requests cost by the list prices of S3 Standard in us-east-1. `requests`: how many, by kind (`Call`)."""
    return sum(number * _DOLLARS[kind] for kind, number in requests.items())


def dollars_a_month(requests_of_commit: Mapping[str, float]) -> float:
    """What a table costs in requests in a month with a commit a minute."""
    return COMMITS_A_MONTH * dollars_of(requests_of_commit)
