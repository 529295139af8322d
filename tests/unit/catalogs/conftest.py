"""The servers of the tests of catalogs."""

from tests.support.dynamodb import dynamodb, dynamodb_server
from tests.support.hive_metastores import hive_metastore

__all__ = ["dynamodb", "dynamodb_server", "hive_metastore"]
