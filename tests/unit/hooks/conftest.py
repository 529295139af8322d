"""The broker of the tests of Kafka."""

from tests.support.kafka import broker

__all__ = ["broker"]
