"""Change data of databases: the messages of Debezium and Maxwell as rows of a table."""

from pyhudi.cdc.envelopes import flatten
from pyhudi.cdc.event_columns import table_options

__all__ = ["flatten", "table_options"]
