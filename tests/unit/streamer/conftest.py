"""The servers of the tests of sources."""

from tests.support.kafka import broker
from tests.support.postgres import postgres

__all__ = ["broker", "postgres"]
