"""Print the columns of a table and their types."""

from __future__ import annotations

import argparse

from pyhudi.commands.arguments import add_json, add_table, opened
from pyhudi.commands.output import Output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_table(parser)
    add_json(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Write a row per column; which of them make the record key, the partition path and the order of versions."""
    table = opened(chosen)
    detail = table.inspect.detail()
    roles = {
        "record key": detail.record_key_fields,
        "partition": detail.partition_fields or (),
        "ordering": detail.ordering_fields,
    }
    columns = [
        {
            "column": field.name,
            "type": str(field.type),
            "nullable": field.nullable,
            "role": ", ".join(role for role, names in roles.items() if field.name in names),
        }
        for field in table.schema
    ]
    output.records(columns, none="the table has no columns yet")
    return 0
