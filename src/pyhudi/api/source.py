"""`table.source`: the source of a bootstrapped table, and what came into it later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from pyhudi.api.arguments import HudiOptions
from pyhudi.api.bootstrap import CheckKeys, bootstrap_partitions, estimated_new_partitions
from pyhudi.api.handle import TableHandle, changes_table
from pyhudi.write.result import WriteResult


@dataclass(frozen=True)
class Source:
    """The folder of Parquet files that a table was bootstrapped from. `HudiTable.source` makes it.

    Its methods raise `InvalidRequestError` for a table that was not bootstrapped. The source is never written to.
    """

    _handle: TableHandle = field(repr=False)

    @changes_table
    def copy_new_partitions(
        self,
        partitions: Sequence[str] | None = None,
        *,
        check_keys: CheckKeys = False,
        hudi_options: HudiOptions | None = None,
    ) -> WriteResult | None:
        """Copy the partitions that came into the source of a bootstrapped table later, in one commit.

        Args:
            partitions: paths of partitions; if not given, all of the source that the table does not have. One whose
                rows were all deleted from the table, by `delete_partition`, counts as new.
            check_keys: as in `HudiTable.bootstrap`.
            hudi_options: as for all writes.

        Returns:
            What the commit did; None if there are no such partitions.

        Raises:
            InvalidRequestError: the table was not bootstrapped; a named partition is not in the source, or the table
                has it already. Files that came into such a partition are not added: upsert their rows.
            RecordKeyError: a key is null or empty, or, with `check_keys`, occurs twice in a partition.
            WriteConflictError: another writer wrote to one of the partitions meanwhile, or its files were changed.

        Cost: a listing of the table, two recursive listings of the source, one footer of each new file, and one pass
        over the rows, as `bulk_insert`.
        """
        return bootstrap_partitions(self._handle, partitions, check_keys, hudi_options)

    def plan_new_partitions(
        self, partitions: Sequence[str] | None = None, *, hudi_options: HudiOptions | None = None
    ) -> pa.Table:
        """What `copy_new_partitions` with these arguments would copy. Nothing is written.

        Columns: as `HudiTable.plan_bootstrap`; no rows where there is nothing to copy. Raises what
        `copy_new_partitions` raises before it reads rows. Cost: a listing of the table, a recursive listing of the
        source, the footers, and some rows.
        """
        return estimated_new_partitions(self._handle, partitions, hudi_options)
