"""The commands of `pyhudi`: their names and groups, and what they do in one line.

A command is a module with `add_arguments(parser)` and `run(chosen, output)`, which returns the exit status. It is
loaded when it is asked for. Commands call the public API alone, by names of `pyhudi`, which
load pyarrow when they are first used: help and completion start without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Command:
    """A command: what it does in one line, and the module of `pyhudi.commands` that does it."""

    help: str
    module: str


GROUPS: Final[dict[str, dict[str, Command]]] = {
    "look at a table": {
        "describe": Command("what kind of table this is, and how large", "describe"),
        "schema": Command("its columns and their types", "schema"),
        "history": Command("what each write did, newest first", "history"),
        "timeline": Command("its instants, of writes and services", "timeline"),
        "files": Command("its file slices and their sizes", "files"),
        "partitions": Command("its partitions and their sizes", "partitions"),
        "stats": Command("small files, logs, skew, and what its writes cost", "stats"),
    },
    "look at its rows": {
        "sample": Command("some rows", "sample"),
        "query": Command("the answer of a SQL query, by DuckDB", "query"),
        "lookup": Command("the rows with some record keys", "lookup"),
        "changes": Command("what was written after a time", "changes"),
        "diff": Command("the rows that differ between two moments", "diff"),
        "export": Command("write rows as plain Parquet files", "export"),
        "explain": Command("what a read opens and leaves out, and why", "explain"),
    },
    "look after a table": {
        "services": Command("run the table services that are due, once or again and again", "services"),
        "compact": Command("merge logs into base files", "compact"),
        "cluster": Command("put small files together, sorted", "cluster"),
        "clean": Command("delete file slices that no retained state needs", "clean"),
        "archive": Command("shorten the active timeline", "archive"),
        "expire": Command("drop partitions that are too old", "expire"),
        "index": Command("list, build and drop indexes", "index"),
        "upgrade": Command("take it to another table version", "upgrade"),
    },
    "undo and mend": {
        "doctor": Command("what is wrong with a table, its store or this machine", "doctor"),
        "savepoint": Command("keep a state readable; list, delete savepoints", "savepoint"),
        "restore": Command("go back to an earlier state", "restore"),
        "rollback": Command("undo the newest write, or what dead writers left", "rollback"),
        "rebuild-metadata": Command("build the metadata table again", "rebuild_metadata"),
    },
    "make and fill a table": {
        "bootstrap": Command("make a folder of Parquet files a table", "bootstrap"),
        "streamer": Command("read what is new in files or queues into a table", "streamer"),
    },
    "this command": {
        "completion": Command("print a script that completes commands in a shell", "completion"),
    },
}
COMMANDS: Final = {name: command for group in GROUPS.values() for name, command in group.items()}
