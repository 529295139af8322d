"""List the newest file slice of each file group: its base file and its logs, with their sizes."""

from __future__ import annotations

import argparse

from pyhudi.commands.arguments import add_json, add_table, opened
from pyhudi.commands.output import Output


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_table(parser)
    parser.add_argument("--partition", metavar="PATH", help="only the files of this partition, such as city=oslo")
    add_json(parser)


def run(chosen: argparse.Namespace, output: Output) -> int:
    """Write a row per file slice; eyes see how many logs it has, programs their paths."""
    rows = opened(chosen).inspect.files().to_pylist()
    if chosen.partition is not None:
        rows = [row for row in rows if row["partition_path"] == chosen.partition.strip("/")]
    if not output.as_json:
        names = ("partition_path", "file_id", "size", "logs", "log_size", "instant")
        rows = [{name: len(row[name]) if name == "logs" else row[name] for name in names} for row in rows]
    output.records(rows, sizes=("size", "log_size"), none="no files")
    return 0
