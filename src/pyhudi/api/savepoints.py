"""`table.savepoints`: states of the table that stay readable until they are given up."""

from __future__ import annotations

import getpass
from dataclasses import asdict, dataclass, field

import pyarrow as pa

from pyhudi.api.arguments import HudiOptions, time_text
from pyhudi.api.handle import TableHandle, changes_table
from pyhudi.errors import ConfigError
from pyhudi.format.timeline.instant import instant_time_from_user
from pyhudi.services.restore.savepoint import Savepoint, create_savepoint, delete_savepoint, savepoint_of
from pyhudi.table.savepoints import load_savepoints

NAME_CHARACTERS_MAX = 200


@dataclass(frozen=True)
class Savepoints:
    """The savepoints of a table, as they are now. `HudiTable.savepoints` makes it.

    A savepoint keeps the state after one write: no clean deletes its files. With a name it is a tag that
    `scan(as_of=name)` reads. JVM Hudi sees a plain savepoint, and honours it.
    """

    _handle: TableHandle = field(repr=False)

    @changes_table
    def create(
        self,
        instant: str | None = None,
        *,
        name: str | None = None,
        comment: str | None = None,
        user: str | None = None,
        hudi_options: HudiOptions | None = None,
    ) -> Savepoint:
        """Keep the state of the table after a write.

        Args:
            instant: a completed write of the active timeline; None: the newest.
            name: a name for `list`, `delete`, `restore` and `as_of`; it must not look like a time or a number.
            comment: any text; the name, if none is given.
            user: who makes it; the user of this process, if none is given.
            hudi_options: options of the table lock.

        Raises:
            InvalidRequestError: there is no such completed write, it has a savepoint, or the name is taken.
            ConfigError: the name is empty or looks like a time.
            HistoryNotRetainedError: cleaners have deleted files of this state.
            CorruptDataError: a file of this state is missing or cut off.
            WriteConflictError: a planned clean names files of this state, the write is being rolled back, or the table
                is being restored.

        Cost: two listings of the table, one read per write that this process does not know and per later clean, two
        puts, and the table lock.

        >>> table.savepoints.create(name="end-of-month").files
        1
        """
        call = self._handle.service_call(hudi_options, call="create")
        name = None if name is None else _checked(name)
        chosen = None if instant is None else time_text(instant, "instant")
        said = comment if comment is not None else name or ""
        return create_savepoint(call, chosen, name=name, comment=said, user=_user() if user is None else user)

    def list(self) -> pa.Table:
        """The savepoints, by instant.

        Columns: instant, name (null where it has none), comment, user, created (in UTC), files (how many it keeps).

        Raises `CorruptDataError` naming a damaged savepoint. Cost: one listing, and a read per savepoint.
        """
        state = self._handle.state.reload()
        found = sorted(load_savepoints(state.storage, state.timeline).items())
        return pa.Table.from_pylist([asdict(savepoint_of(*savepoint)) for savepoint in found], schema=_SCHEMA)

    @changes_table
    def delete(self, instant_or_name: str, *, hudi_options: HudiOptions | None = None) -> None:
        """Give a savepoint up: its files are deleted by the next clean that finds no other reason to keep them.

        Raises:
            InvalidRequestError: there is no such savepoint.
            WriteConflictError: the table is being restored.

        Cost: one listing, two deletes, and the table lock; by a name, also a read per savepoint.

        >>> table.savepoints.delete("end-of-month")
        """
        call = self._handle.service_call(hudi_options, call="delete")
        delete_savepoint(call, time_text(instant_or_name, "instant_or_name"))


def _checked(name: str) -> str:
    if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > NAME_CHARACTERS_MAX:
        raise ConfigError(
            f"the name of a savepoint must be a text of 1 to {NAME_CHARACTERS_MAX} printable characters",
            name=repr(name),
        )
    if name.isdigit() or _is_time(name):
        raise ConfigError("the name of a savepoint must not look like a time or a number", name=name)
    return name


def _is_time(name: str) -> bool:
    try:
        instant_time_from_user(name, None)
    except ConfigError:
        return False
    return True


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""  # a container without an entry for its user


_SCHEMA = pa.schema(
    [
        ("instant", pa.string()),
        ("name", pa.string()),
        ("comment", pa.string()),
        ("user", pa.string()),
        ("created", pa.timestamp("ms", "UTC")),
        ("files", pa.int64()),
    ]
)
