"""The commands of `pyhudi`: their names and groups, and what they do in one line.

A command is a function of a module, made one by `@command` with its arguments. Its module is loaded when it is asked
for. Commands call the public API alone, by names of `pyhudi`, which load pyarrow when they are first used: help and
completion start without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Listed:
    """A command in the list: what it does in one line, and the module of `pyhudi.commands` that has its function."""

    help: str
    module: str


GROUPS: Final[dict[str, dict[str, Listed]]] = {
    "look at a table": {
        "describe": Listed("what kind of table this is, and how large", "look"),
        "schema": Listed("its columns and their types", "look"),
        "history": Listed("what each write did, newest first", "look"),
        "timeline": Listed("its instants, of writes and services", "look"),
        "files": Listed("its file slices and their sizes", "look"),
        "partitions": Listed("its partitions and their sizes", "look"),
        "inspect": Listed("all of that as a page in a browser, or in a file", "inspect"),
        "stats": Listed("small files, logs, skew, and what its writes cost", "look"),
    },
    "look at its rows": {
        "sample": Listed("some rows", "rows"),
        "query": Listed("the answer of a SQL query, by DuckDB", "query"),
        "lookup": Listed("the rows with some record keys", "rows"),
        "changes": Listed("what was written after a time", "rows"),
        "diff": Listed("the rows that differ between two moments", "rows"),
        "export": Listed("write rows as Parquet, JSON, or as a table of the newest state", "rows"),
        "explain": Listed("what a read opens and leaves out, and why", "rows"),
    },
    "look after a table": {
        "services": Listed("run the table services that are due, once or again and again", "services"),
        "compact": Listed("merge logs into base files", "maintenance"),
        "cluster": Listed("put small files together, sorted", "maintenance"),
        "clean": Listed("delete file slices that no retained state needs", "maintenance"),
        "archive": Listed("shorten the active timeline", "maintenance"),
        "expire": Listed("drop partitions that are too old", "maintenance"),
        "index": Listed("list, build and drop indexes", "maintenance"),
        "upgrade": Listed("take it to another table version", "maintenance"),
        "sync": Listed("make a catalog right: columns, partitions, the newest write", "maintenance"),
    },
    "undo and mend": {
        "doctor": Listed("what is wrong with a table, its store or this machine", "doctor"),
        "savepoint": Listed("keep a state readable; list, delete savepoints", "undo"),
        "restore": Listed("go back to an earlier state", "undo"),
        "rollback": Listed("undo the newest write, by its instant, or what dead writers left", "undo"),
        "rebuild-metadata": Listed("build the metadata table again", "undo"),
    },
    "make and fill a table": {
        "copy": Listed("copy a table with all that it keeps", "undo"),
        "bootstrap": Listed("make a folder of Parquet files a table", "bootstrap"),
        "streamer": Listed("read what is new in files or queues into a table", "streamer"),
        "wait-for": Listed("wait until a partition is complete", "watermark"),
    },
    "this command": {
        "completion": Listed("print a script that completes commands in a shell", "completion"),
    },
}
COMMANDS: Final = {name: listed for group in GROUPS.values() for name, listed in group.items()}
