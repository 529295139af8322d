"""`table.alter`: changes of the table itself: its version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pyhudi.api.arguments import HudiOptions
from pyhudi.api.handle import TableHandle
from pyhudi.errors import ConfigError, InvalidRequestError
from pyhudi.format.timeline.table_version import NEWEST, TABLE_VERSIONS, TableVersion
from pyhudi.services.upgrade.change import VersionChanged, change_version, planned_change


@dataclass(frozen=True)
class Alter:
    """Changing a table: which releases of Hudi can read and write it. `HudiTable.alter` makes it.

    A version is only ever changed by these calls, never by a write. Both may die at any moment: the table then has the
    old version or the new one, whole, and the same call finishes what is left. Writers and readers that are at work
    keep to the version that they loaded and fail with a typed error at their next step; stop them first.

    Both raise, before anything is changed: `UnsupportedFeatureError` for what the other version cannot hold,
    `WriteConflictError` while a write or a service is pending, `ConfigError` for an option that is not legal; also
    `LockNotAcquiredError`.
    """

    _handle: TableHandle = field(repr=False)

    def upgrade(self, to: int = NEWEST.number, *, hudi_options: HudiOptions | None = None) -> VersionChanged:
        """Take the table to a newer version: 8 for JVM Hudi 1.0 and later, 9 for JVM Hudi 1.1 and later.

        `plan_version` lists the steps. The merge rule becomes what JVM Hudi's upgrade would make it; for a table of
        version 6, `hoodie.record.merge.mode` may name another one.

        Args:
            to: 8 or 9. A table that has this version already is left as it is.
            hudi_options: `hoodie.datasource.write.partitionpath.field` with the kinds of the fields, for a table of
                version 6 with a CUSTOM key generator, which does not store them.

        Raises:
            InvalidRequestError: the table has a newer version.

        Cost: the table lock and a put of the properties per version; from version 6 also a read, a put and a delete per
        file of the timeline and of the archive; in a merge-on-read table first a compaction of all logs.

        >>> table.alter.upgrade(to=9).after
        9
        """
        return self._change(to, hudi_options, call="upgrade")

    def downgrade(self, to: int, *, hudi_options: HudiOptions | None = None) -> VersionChanged:
        """Take the table to an older version: 8 for JVM Hudi 1.0, 6 for JVM Hudi 0.14 and 0.15.

        Args:
            to: 6 or 8. A table that has this version already is left as it is.
            hudi_options: options of the compaction, in a merge-on-read table.

        Raises:
            InvalidRequestError: the table has an older version.
            UnsupportedFeatureError: the table has what the older version cannot hold: several ordering fields, a
                savepoint that keeps logs (for version 6), delete markers or partial updates without a payload class.

        A merge-on-read table that goes to version 6 is compacted, and cleaned of all file slices but the newest: states
        of before cannot be read then. Cost: as `upgrade`; to version 6 also that of such a clean.

        >>> table.alter.downgrade(to=8).steps[-1]
        '9 to 8: drop the metadata table'
        """
        return self._change(to, hudi_options, call="downgrade")

    def plan_version(self, to: int, *, hudi_options: HudiOptions | None = None) -> pa.Table:
        """The steps in which `upgrade` or `downgrade` would take the table to this version. Nothing is written.

        Columns: from_version, to_version, step, what (the step does), why. No rows for the version that the table has.
        Raises what the change would refuse because of the table itself. Cost: a read and a listing; more for a
        merge-on-read table, see `downgrade`.

        >>> table.alter.plan_version(to=9).column("step").to_pylist()
        []
        """
        call = self._handle.service_call(hudi_options, call="plan_version")
        rows = [
            {
                "from_version": planned.leg.origin.number,
                "to_version": planned.leg.target.number,
                "step": planned.step.name,
                "what": planned.step.what,
                "why": planned.step.why,
            }
            for planned in planned_change(call, _version_of(to))
        ]
        return pa.Table.from_pylist(rows, schema=_PLAN_SCHEMA)

    def _change(self, to: int, hudi_options: HudiOptions | None, *, call: str) -> VersionChanged:
        target = _version_of(to)
        service_call = self._handle.service_call(hudi_options, call=call).reloaded()
        present = service_call.table.version.number
        if (target.number - present) * (1 if call == "upgrade" else -1) < 0:
            other = "downgrade" if call == "upgrade" else "upgrade"
            raise InvalidRequestError(
                f"the table has version {present}, so version {target} is a matter of alter.{other}", to=to
            )
        return change_version(service_call, target)


def _version_of(number: Any) -> TableVersion:
    version = TABLE_VERSIONS.get(number) if type(number) is int else None
    if version is None:
        raise ConfigError(f"to must be one of the versions {', '.join(map(str, TABLE_VERSIONS))}", to=repr(number))
    return version


_PLAN_SCHEMA = pa.schema(
    [
        ("from_version", pa.int64()),
        ("to_version", pa.int64()),
        ("step", pa.string()),
        ("what", pa.string()),
        ("why", pa.string()),
    ]
)
