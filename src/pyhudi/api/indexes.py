"""`table.indexes`: indexes of the metadata table that readers and writers use, made and dropped by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

import pyarrow as pa

from pyhudi.api.arguments import HudiOptions, texts_of
from pyhudi.api.handle import TableHandle, changes_table
from pyhudi.format.schema.result_tables import table_of
from pyhudi.services.indexing.listing import listed_indexes, partition_of_listed

if TYPE_CHECKING:
    from pyhudi.services.indexing.build import BuiltIndex
    from pyhudi.services.indexing.definitions import Statistic

IndexKindName: TypeAlias = Literal["record", "column_stats", "partition_stats", "bloom", "secondary", "expression"]


@dataclass(frozen=True)
class Indexes:
    """The indexes in the metadata table of a table, as they are now. `HudiTable.indexes` makes it.

    An index is kept by every commit from the moment when it was built until it is dropped; writers whose options do not
    ask for it keep it, too. The indexes by which a write finds keys without one are options of the write
    (`hoodie.index.type`).
    """

    _handle: TableHandle = field(repr=False)

    @changes_table
    def create(
        self,
        name: str,
        kind: IndexKindName | None = None,
        columns: str | Sequence[str] = (),
        *,
        using: Statistic = "column_stats",
        expression: Mapping[str, str] | None = None,
        hudi_options: HudiOptions | None = None,
    ) -> BuiltIndex:
        """Build an index of the whole table, while other writers go on.

        A build that died leaves nothing that counts; the same call goes on with it.

        Args:
            name: "record_index", "column_stats", "partition_stats" or "bloom_filters", of which a table has one; any
                other name for an index of another kind.
            kind: "record", "column_stats", "partition_stats", "bloom", "secondary" or "expression"; may be left out
                where the name says it.
            columns: the columns of the index; where none are given, those that JVM Hudi takes.
            using: what an expression index has: "column_stats" or "bloom_filters".
            expression: of an expression index, the options of JVM Hudi's CREATE INDEX: `{"expr": "lower"}`,
                `{"expr": "from_unixtime", "format": "yyyy-MM-dd"}`. Without it, filters are over the column.
            hudi_options: options of the index, and of the table lock.

        Raises:
            InvalidRequestError: the index exists, or the table has no metadata table.
            ConfigError: a name or kind that cannot be, or a column that the table does not have.
            UnsupportedFeatureError: this release cannot maintain an index of this kind.
            WriteConflictError: another process is building it, or the table is being restored.

        Cost: what the index is made of is read once (keys, footers or columns); the writes that are completed meanwhile
        are followed; the table lock two or three times, for a few requests.

        >>> table.indexes.create("record_index").file_groups
        10
        """
        from pyhudi.services.indexing.create import create_index

        call = self._handle.service_call(hudi_options, call="create")
        return create_index(call, name, kind, texts_of(columns, "columns"), using, expression)

    @changes_table
    def refresh(self, name: str, *, hudi_options: HudiOptions | None = None) -> BuiltIndex:
        """Build an index again, with its definition. Until that is done, it is not used.

        Raises:
            InvalidRequestError: there is no such index.
            WriteConflictError: another process is building it, or the table is being restored.

        Cost: that of `create`.
        """
        from pyhudi.services.indexing.create import refresh_index

        call = self._handle.service_call(hudi_options, call="refresh")
        return refresh_index(call, partition_of_listed(call.table.reload(), name))

    @changes_table
    def drop(self, name: str, *, hudi_options: HudiOptions | None = None) -> None:
        """Take an index out of the table; also a build of it that died.

        Indexes that need it go with it: secondary indexes with "record_index", and "partition_stats" with
        "column_stats". The definitions of secondary indexes stay, for `refresh`, until they are dropped, too.

        Raises:
            InvalidRequestError: there is no such index.
            WriteConflictError: another process is building it, or the table is being restored.

        Cost: a few requests, and the deletion of its files; the table lock.
        """
        from pyhudi.services.indexing.drop import drop_index

        call = self._handle.service_call(hudi_options, call="drop")
        drop_index(call, partition_of_listed(call.table.reload(), name))

    def list(self) -> pa.Table:
        """The indexes, by name.

        Columns: name; kind; partition (its folder in the metadata table); columns (null where it has no list of them);
        state ("ready"; "building", by a process that lives; "interrupted", by one that died; "defined", and not built,
        as JVM Hudi leaves it when a build fails); begun (when the build began, for builds).

        Cost: a read and a listing; two reads and requests for each build.
        """
        table = self._handle.state.reload()
        return table_of(_COLUMNS, listed_indexes(table, self._is_being_built))

    def _is_being_built(self, partition: str) -> bool:
        from pyhudi.services.indexing.definitions import is_being_built

        call = self._handle.service_call(None, call="list")
        return is_being_built(call.table.storage, partition, call.settings.heartbeat, call.environment)


_COLUMNS = "name string, kind string, partition string, columns list<string>, state string, begun string"
