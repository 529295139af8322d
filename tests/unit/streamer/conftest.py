"""The servers of the tests of sources."""

from tests.support.dynamodb import dynamodb, dynamodb_server
from tests.support.kafka import broker
from tests.support.mariadb import mariadb
from tests.support.postgres import postgres
from tests.support.registries import registry, small_registry

__all__ = ["broker", "dynamodb", "dynamodb_server", "mariadb", "postgres", "registry", "small_registry"]
