"""A Hive metastore as a catalog, over Thrift: Hive 2.3, 3.1 and 4.0, of which each has the calls that are used here."""

from __future__ import annotations

import copy
import functools
import getpass
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyhudi.catalogs.protocol import CatalogColumn, CatalogPartition, CatalogTable, StorageFormat
from pyhudi.errors import CatalogError, ConfigError, UnsupportedFeatureError
from pyhudi.format.keys.partition_paths import escape_value

_PORT = 9083
_ANSWER_MS = 600_000  # a cascade over 100,000 partitions takes minutes
_NAMES_MAX = 1000
"""How many partitions one request asks for."""
_DROPPED_MAX = 100
_ALL = -1


class HiveMetastore:
    """See `Catalog`. Not for several threads at once."""

    batch_max = 10_000

    def __init__(self, uris: str) -> None:
        """Connect to the first of some metastores that answers. `uris`: `thrift://host:port`, separated by commas.

        Raises:
            ConfigError: a URI is none of Thrift.
            UnsupportedFeatureError: thriftpy2 is missing.
            CatalogError: none answers.
        """
        self._protocol = _protocol()
        self._uris = uris
        self._client = self._connected()

    def has_database(self, name: str) -> bool:
        """See `Catalog`."""
        with self._asked(database=name):
            try:
                self._client.get_database(name)
            except self._protocol.NoSuchObjectException:
                return False
        return True

    def create_database(self, name: str) -> None:
        """See `Catalog`."""
        with self._asked(database=name):
            made = self._protocol.Database(name=name, description="automatically created by hoodie")
            with suppress(self._protocol.AlreadyExistsException):  # another sync has made it meanwhile
                self._client.create_database(made)

    def find_table(self, database: str, name: str) -> CatalogTable | None:
        """See `Catalog`."""
        request = self._protocol.GetTableRequest(dbName=database, tblName=name)
        with self._asked(table=f"{database}.{name}"):
            try:
                return _table_of(self._client.get_table_req(request).table)
            except self._protocol.NoSuchObjectException:
                return None

    def create_table(self, table: CatalogTable) -> None:
        """See `Catalog`."""
        made = self._protocol.Table(
            tableName=table.name, dbName=table.database, owner=_user(), tableType="EXTERNAL_TABLE", retention=0
        )
        serde = self._protocol.SerDeInfo()
        made.sd = self._protocol.StorageDescriptor(compressed=False, numBuckets=0, serdeInfo=serde)
        self._fill(made, table)
        made.partitionKeys = self._columns(table.partition_columns)
        with self._asked(table=f"{table.database}.{table.name}"):
            self._client.create_table(made)

    def replace_table(self, table: CatalogTable, *, columns_of_partitions: bool) -> None:
        """See `Catalog`. The metastore itself gives partitions their columns."""
        changed = copy.deepcopy(table.stored)
        self._fill(changed, table)
        cascade = {"CASCADE": "true"} if columns_of_partitions else {}
        context = self._protocol.EnvironmentContext(properties=cascade)
        with self._asked(table=f"{table.database}.{table.name}"):
            self._client.alter_table_with_environment_context(table.database, table.name, changed, context)

    def partitions(self, table: CatalogTable, values: Sequence[tuple[str, ...]] | None) -> list[CatalogPartition]:
        """See `Catalog`. Cost: a request per 1,000 partitions, and one more for all."""
        return [
            CatalogPartition(tuple(partition.values), partition.sd.location)
            for partition in self._stored_partitions(table, values)
        ]

    def add_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """See `Catalog`."""
        made = [
            self._protocol.Partition(
                values=list(partition.values),
                dbName=table.database,
                tableName=table.name,
                sd=self._place(table, partition),
            )
            for partition in partitions
        ]
        request = self._protocol.AddPartitionsRequest(
            dbName=table.database, tblName=table.name, parts=made, ifNotExists=True, needResult=False
        )
        with self._asked(table=f"{table.database}.{table.name}"):
            self._client.add_partitions_req(request)

    def move_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """See `Catalog`."""
        places = {partition.values: partition for partition in partitions}
        stored = list(self._stored_partitions(table, list(places)))
        for partition in stored:
            partition.sd = self._place(table, places[tuple(partition.values)])
        with self._asked(table=f"{table.database}.{table.name}"):
            self._client.alter_partitions(table.database, table.name, stored)

    def drop_partitions(self, table: CatalogTable, values: Sequence[tuple[str, ...]]) -> None:
        """See `Catalog`. Cost: a request per 100 partitions: metastores on Derby fail at long lists."""
        for start in range(0, len(values), _DROPPED_MAX):
            names = [_partition_name(table, value) for value in values[start : start + _DROPPED_MAX]]
            request = self._protocol.DropPartitionsRequest(
                dbName=table.database,
                tblName=table.name,
                parts=self._protocol.RequestPartsSpec(names=names),
                deleteData=False,
                ifExists=True,
                needResult=False,
            )
            with self._asked(table=f"{table.database}.{table.name}"):
                self._client.drop_partitions_req(request)

    def close(self) -> None:
        """See `Catalog`."""
        self._client.close()

    def _stored_partitions(self, table: CatalogTable, values: Sequence[tuple[str, ...]] | None) -> Iterator[Any]:
        with self._asked(table=f"{table.database}.{table.name}"):
            if values is None:
                names = self._client.get_partition_names(table.database, table.name, _ALL)
            else:
                names = [_partition_name(table, value) for value in values]
            for start in range(0, len(names), _NAMES_MAX):
                some = names[start : start + _NAMES_MAX]
                yield from self._client.get_partitions_by_names(table.database, table.name, some)

    def _fill(self, stored: Any, table: CatalogTable) -> None:
        """Put the fields of an entry into the metastore's object."""
        stored.parameters = dict(table.parameters)
        stored.sd.cols = self._columns(table.columns)
        stored.sd.location = table.location
        stored.sd.inputFormat, stored.sd.outputFormat = table.format.input_format, table.format.output_format
        stored.sd.serdeInfo.serializationLib = table.format.serde
        stored.sd.serdeInfo.parameters = dict(table.serde_parameters)

    def _place(self, table: CatalogTable, partition: CatalogPartition) -> Any:
        descriptor = copy.copy(table.stored.sd)
        descriptor.location = partition.location
        return descriptor

    def _columns(self, columns: Sequence[CatalogColumn]) -> list[Any]:
        return [
            self._protocol.FieldSchema(name=column.name, type=column.type, comment=column.comment) for column in columns
        ]

    def _connected(self) -> Any:
        from thriftpy2.rpc import make_client  # noqa: PLC0415 - an extra
        from thriftpy2.transport import TTransportException  # noqa: PLC0415

        failure: Exception | None = None
        for host, port in _addresses(self._uris):
            try:
                return make_client(self._protocol.ThriftHiveMetastore, host, port, timeout=_ANSWER_MS)
            except (OSError, TTransportException) as error:
                failure = error
        raise CatalogError(
            f"no Hive metastore answers: {_reason(failure)}; see hoodie.datasource.hive_sync.metastore.uris",
            uris=self._uris,
        ) from failure

    @contextmanager
    def _asked(self, **about: str) -> Iterator[None]:
        """What the metastore refuses, and a connection that is lost, as errors of pyhudi."""
        from thriftpy2.thrift import TException  # noqa: PLC0415 - an extra

        try:
            yield
        except (OSError, EOFError, TException) as error:
            raise CatalogError(
                f"the Hive metastore refused a request, or its connection was lost: {_reason(error)}",
                uris=self._uris,
                **about,
            ) from error


@functools.cache
def _protocol() -> Any:
    """The structs and the service of the metastore."""
    try:
        import thriftpy2  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise UnsupportedFeatureError(
            "a Hive metastore needs thriftpy2: pip install 'pyhudi[hive]'", package="thriftpy2"
        ) from error
    path = Path(__file__).with_name("hive_metastore.thrift")
    return thriftpy2.load(str(path), module_name="pyhudi_hive_metastore_thrift")


def _addresses(uris: str) -> list[tuple[str, int]]:
    found = []
    for uri in uris.split(","):
        try:
            parts = urlsplit(uri.strip())
            host, port = parts.hostname, parts.port or _PORT
        except ValueError:
            host = None
        if host is None or parts.scheme != "thrift":
            raise ConfigError("the address of a Hive metastore is thrift://host:port", uri=uri.strip())
        found.append((host, port))
    return found


def _reason(error: BaseException | None) -> str:
    return str(getattr(error, "message", None) or error or type(error).__name__)


def _partition_name(table: CatalogTable, values: Sequence[str]) -> str:
    """The name that the metastore gives a partition: `city=oslo/day=2024-01-31`, with Hive's escapes."""
    pairs = zip(table.partition_columns, values, strict=True)
    return "/".join(f"{escape_value(column.name)}={escape_value(value)}" for column, value in pairs)


def _table_of(stored: Any) -> CatalogTable:
    descriptor, serde = stored.sd, stored.sd.serdeInfo
    return CatalogTable(
        database=stored.dbName,
        name=stored.tableName,
        location=descriptor.location or "",
        columns=_columns_of(descriptor.cols),
        partition_columns=_columns_of(stored.partitionKeys),
        format=StorageFormat(descriptor.inputFormat or "", descriptor.outputFormat or "", serde.serializationLib or ""),
        serde_parameters=dict(serde.parameters or {}),
        parameters=dict(stored.parameters or {}),
        stored=stored,
    )


def _columns_of(stored: Sequence[Any] | None) -> tuple[CatalogColumn, ...]:
    return tuple(CatalogColumn(column.name, column.type, column.comment or "") for column in stored or ())


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""  # a container without an entry for its user
