"""Tables of HBase by its Thrift server, and a store of index entries in one. Needs `pip install pyhudi[hbase]`.

All calls may be repeated: a put of the same cells and a delete of the same rows change nothing. So a call whose
connection broke is made once more on a new one, as the server closes connections that were idle for a minute.
"""

from __future__ import annotations

import hashlib
import importlib
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import getpid
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlsplit

from pyhudi.errors import ConfigError, HudiError, StorageError, UnavailableError

T = TypeVar("T")

TIMEOUT_MS = 60_000
DEFAULT_PORT = 9090
ROW_BYTES_MAX = 32_767
"""The longest row key of HBase."""
ENTRIES = b"e"
"""The family of a table with entries of pyhudi."""
_TRANSPORTS, _PROTOCOLS = ("buffered", "framed"), ("binary", "compact")
_LEGAL = "thrift://host:port/table, with ?transport=framed or ?protocol=compact where the server has them"


@dataclass(frozen=True, slots=True)
class ThriftServer:
    """The address of a Thrift server of HBase (version 1 of its interface), and how it speaks."""

    host: str
    port: int
    transport: str = "buffered"
    protocol: str = "binary"

    def __str__(self) -> str:
        """As users name it."""
        return f"thrift://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class HBaseTable:
    """One family of a table. `keys_per_get`, `keys_per_put`: how many rows a call asks for, or changes."""

    server: ThriftServer
    name: str
    family: bytes
    keys_per_get: int = 100
    keys_per_put: int = 100

    def rows(self, keys: Sequence[bytes]) -> list[Mapping[bytes, bytes]]:
        """The cells of rows by their qualifiers, in the order of the keys. Cost: a call for `keys_per_get` rows."""
        found: dict[bytes, Mapping[bytes, bytes]] = {}
        skipped = len(self.family) + 1
        for start in range(0, len(keys), self.keys_per_get):
            asked = list(dict.fromkeys(keys[start : start + self.keys_per_get]))
            for key, cells in self._call(partial(_rows, asked=asked, family=self.family)):
                found[key] = {column[skipped:]: value for column, value in cells.items()}
        return [found.get(key, {}) for key in keys]

    def put(self, rows: Sequence[tuple[bytes, Mapping[bytes, bytes]]]) -> None:
        """Write cells of rows, by their qualifiers. Cost: a call for `keys_per_put` rows."""
        self._change(
            rows, lambda batch, row, cells: batch.put(row, {self._column(cell): cells[cell] for cell in cells})
        )

    def delete(self, rows: Sequence[bytes]) -> None:
        """Delete all cells of rows. Cost: as `put`."""
        self._change([(row, None) for row in rows], lambda batch, row, _: batch.delete(row, columns=[self.family]))

    def delete_cells(self, cells: Sequence[tuple[bytes, bytes]]) -> None:
        """Delete cells, each given by its row and its qualifier. Cost: as `put`."""
        self._change(cells, lambda batch, row, key: batch.delete(row, columns=[self._column(key)]))

    def check(self) -> None:
        """Raise `ConfigError` if there is no such table, or it does not have the family. Cost: two calls."""
        if self.name.encode() not in call(self.server, lambda connection: connection.tables()):
            raise _no_table(self)
        families = self._call(lambda table: table.families())
        if self.family not in {name.rstrip(b":") for name in families}:
            raise _no_family(self, have=sorted(name.decode(errors="replace").rstrip(":") for name in families))

    def make(self) -> None:
        """Create the table if there is none. Cost: a call; of the first time two more, some seconds together."""
        if self.name.encode() in call(self.server, lambda connection: connection.tables()):
            return
        families = {self.family.decode(): {"max_versions": 1}}
        try:
            call(self.server, lambda connection: connection.create_table(self.name, families))
        except StorageError:
            # Another process may have made it in the meantime.
            if self.name.encode() not in call(self.server, lambda connection: connection.tables()):
                raise

    def _change(self, rows: Sequence[tuple[bytes, Any]], change: Callable[[Any, bytes, Any], None]) -> None:
        for start in range(0, len(rows), self.keys_per_put):
            piece = rows[start : start + self.keys_per_put]

            def send(table: Any, piece: Sequence[tuple[bytes, Any]] = piece) -> None:
                batch = table.batch()
                for row, cells in piece:
                    change(batch, row, cells)
                batch.send()

            self._call(send)

    def _call(self, request: Callable[[Any], T]) -> T:
        return call(self.server, lambda connection: request(connection.table(self.name)), self)

    def _column(self, qualifier: bytes) -> bytes:
        return self.family + b":" + qualifier


@dataclass(frozen=True, slots=True)
class HBaseKeyStore:
    """Entries in a table of HBase: the qualifiers of a key's row are its entries. See `KeyStore`."""

    table: HBaseTable

    def get(self, keys: Sequence[bytes]) -> Sequence[Collection[bytes]]:
        """See `KeyStore.get`."""
        return [list(cells) for cells in self.table.rows([_row_of(key) for key in keys])]

    def add(self, keys: Sequence[bytes], entries: Sequence[bytes]) -> None:
        """See `KeyStore.add`."""
        self.table.put([(_row_of(key), {entry: b""}) for key, entry in zip(keys, entries, strict=True)])

    def remove(self, keys: Sequence[bytes], entries: Sequence[bytes]) -> None:
        """See `KeyStore.remove`."""
        self.table.delete_cells([(_row_of(key), entry) for key, entry in zip(keys, entries, strict=True)])


def _rows(table: Any, asked: list[bytes], family: bytes) -> list[tuple[bytes, dict[bytes, bytes]]]:
    found: list[tuple[bytes, dict[bytes, bytes]]] = table.rows(asked, columns=[family])
    return found


def table_at(url: str, *, keys_per_get: int, keys_per_put: int) -> HBaseTable:
    """The table of entries that a URL such as `thrift://host:9090/pyhudi_keys` names.

    Raises `ConfigError` for a URL of another form.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or DEFAULT_PORT
        asked = dict(parse_qsl(parts.query, strict_parsing=True)) if parts.query else {}
    except ValueError as error:
        raise ConfigError(f"hoodie.index.hbase.store must be {_LEGAL}", reason=str(error)) from error
    transport, protocol = asked.pop("transport", _TRANSPORTS[0]), asked.pop("protocol", _PROTOCOLS[0])
    name = parts.path.removeprefix("/")
    wrong = not parts.hostname or not name or "/" in name or asked or parts.username is not None
    if wrong or transport not in _TRANSPORTS or protocol not in _PROTOCOLS:
        raise ConfigError(f"hoodie.index.hbase.store must be {_LEGAL}", host=parts.hostname, table=name)
    server = ThriftServer(str(parts.hostname), port, transport, protocol)
    return HBaseTable(server, name, ENTRIES, keys_per_get, keys_per_put)


def call(server: ThriftServer, request: Callable[[Any], T], table: HBaseTable | None = None) -> T:
    """Make a request to a Thrift server, on a connection of this thread.

    Raises:
        ConfigError: the client is not installed, or HBase has no such table or family.
        UnavailableError: the server does not answer.
        StorageError: it answers in another way, or with an error.
    """
    for attempt in (1, 2):
        try:
            return request(_connected(server))
        except HudiError:
            raise
        except Exception as error:  # whatever the client raises
            _forget(server)
            is_broken = isinstance(error, OSError | EOFError) or type(error).__name__ == "TTransportException"
            # A server that did not answer for a minute is not asked a second time.
            if not is_broken or isinstance(error, TimeoutError) or attempt == 2:
                raise _typed(error, server, table, is_broken=is_broken) from error
    raise AssertionError  # the second attempt returns or raises


class _Connections(threading.local):
    """The connections of a thread: they cannot be shared. A forked child must not use its parent's, either."""

    def __init__(self) -> None:
        self.of: dict[tuple[ThriftServer, int], Any] = {}


_open = _Connections()


def _connected(server: ThriftServer) -> Any:
    connections, key = _open.of, (server, getpid())
    if key not in connections:
        try:
            client: Any = importlib.import_module("happybase")
        except ImportError as error:
            raise ConfigError(
                "a store at thrift:// needs the package happybase: pip install 'pyhudi[hbase]'"
            ) from error
        connections[key] = client.Connection(
            server.host, server.port, timeout=TIMEOUT_MS, transport=server.transport, protocol=server.protocol
        )
    return connections[key]


def _forget(server: ThriftServer) -> None:
    connection = _open.of.pop((server, getpid()), None)
    if connection is not None:
        connection.close()


def _typed(error: Exception, server: ThriftServer, table: HBaseTable | None, *, is_broken: bool) -> HudiError:
    said = _message(error)
    if table is not None and "TableNotFoundException" in said:
        return _no_table(table)
    if table is not None and "NoSuchColumnFamilyException" in said:
        return _no_family(table)
    context = {"server": str(server), "table": table.name if table else None, "reason": said.split("\n", 1)[0][:500]}
    if is_broken:
        return UnavailableError(
            "HBase's Thrift server does not answer, or answers with another transport or protocol than "
            "hoodie.index.hbase.store names",
            **context,
        )
    if type(error).__name__ in {"TApplicationException", "TProtocolException"}:
        return StorageError(
            "what answers is no Thrift server of HBase with version 1 of the interface: start HBase's with "
            "`hbase thrift start`, not `hbase thrift2 start`",
            **context,
        )
    return StorageError("HBase failed", **context)


def _message(error: Exception) -> str:
    """What an error says. The client's own texts are bytes, which `str` of an exception cannot be made of."""
    said = getattr(error, "message", None)
    text = said.decode(errors="replace") if isinstance(said, bytes) else said
    return f"{type(error).__name__}: {text if text is not None else ', '.join(map(str, error.args))}"


def _no_table(table: HBaseTable) -> ConfigError:
    family = table.family.decode()
    option = "hoodie.index.hbase.store" if table.family == ENTRIES else "hoodie.index.hbase.table"
    return ConfigError(
        f"HBase has no table {table.name}: create it in HBase's shell with create '{table.name}', '{family}', or name "
        f"another by {option}",
        table=table.name,
        server=str(table.server),
    )


def _no_family(table: HBaseTable, have: Sequence[str] = ()) -> ConfigError:
    return ConfigError(
        f"the table {table.name} of HBase has no column family {table.family.decode()}, so it is no index: name "
        "another table",
        table=table.name,
        server=str(table.server),
        families=tuple(have),
    )


def _row_of(key: bytes) -> bytes:
    """The row of a key; of one that is too long for HBase, its hash: an entry too many costs a look into a file."""
    return b"k" + key if len(key) < ROW_BYTES_MAX else b"h" + hashlib.sha256(key).digest()
