"""The verbs of `HudiTable` that change rows by conditions, or compare them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from pyhudi.api.arguments import HudiOptions
    from pyhudi.api.handle import TableHandle
    from pyhudi.api.row_changes import Merge
    from pyhudi.api.rows import RowsLike
    from pyhudi.write.result import WriteResult


class RowVerbs:
    """The verbs of `HudiTable` that change rows by conditions, or compare them."""

    handle: TableHandle

    def merge(self, source: RowsLike, on: Any, *, target_name: str = "target", source_name: str = "source") -> Merge:
        """Describe a merge of rows into the table; `execute` runs it.

        Args:
            source: the rows, as for `upsert`.
            on: which rows belong together: the name of a column of both sides, a list of such names, or text such as
                `"target.id = source.id"`. With a Spark DataFrame any condition, as SQL text or Column.
            target_name: what conditions and values call the table.
            source_name: what they call the source.

        Cost: none; see `Merge.execute`.

        >>> table.merge(rows, on="id").when_matched_update_all().when_not_matched_insert_all().execute().updated
        1
        """
        from pyhudi.api.row_changes import merge_of

        return merge_of(self.handle, source, on, target_name, source_name)

    def update(
        self,
        set: Mapping[str, Any],  # noqa: A002
        where: Any = None,
        *,
        hudi_options: HudiOptions | None = None,
    ) -> WriteResult:
        """Give columns of the rows that meet a condition new values.

        Args:
            set: values by column. A table that was opened with `spark=` takes SQL texts and Columns. Otherwise a value
                is an Arrow expression, a text that names a column, or a literal.
            where: a condition as for `scan`; of a table that was opened with `spark=` SQL text or a Column. None: all
                rows.
            hudi_options: options of this call.

        Raises what `Merge.execute` raises. The merge rule of the table holds, as for an `upsert`. Cost: a scan of the
        rows, and that of an `upsert` of them.

        >>> table.update({"fare": 0.0}, [("city", "==", "oslo")]).updated
        1
        """
        from pyhudi.api.row_changes import change_rows

        return change_rows(self.handle, where, set, hudi_options, call="update")

    def delete_where(self, where: Any, *, hudi_options: HudiOptions | None = None) -> WriteResult:
        """Delete the rows that meet a condition, which is given as for `update`. Cost: as `update`; reads keys only.

        >>> table.delete_where([("fare", ">", 9)]).deleted
        1
        """
        from pyhudi.api.row_changes import change_rows

        return change_rows(self.handle, where, None, hudi_options, call="delete_where")

    def diff(self, begin: str | datetime, end: str | datetime | None = None) -> pa.Table:
        """The rows that differ between two moments, by record key; also backwards in time.

        Columns: op ("i": only the state at `end` has the row; "d": only that at `begin`; "u": both have it, with other
        values), record_key, partition_path, before and after (structs of the columns that both states have, without
        meta columns; null where there is no row). A row that was written again with the same values is not among them,
        and one that moved to another partition is a "d" and an "i".

        Args:
            begin: as `as_of` of `scan`: an instant, a time, or the name of a savepoint.
            end: the same; None: the state when the table was opened.

        Raises what `scan` raises for `as_of`, and `UnsupportedFeatureError` for a table without stored record keys.
        Cost: two listings; the file slices that both moments share are not read, the rows of the others are held in
        memory.

        >>> table.diff(table.upsert(rows).instant).num_rows
        0
        """
        from pyhudi.api.difference import difference

        return difference(self.handle, begin, end)
