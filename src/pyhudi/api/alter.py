"""`table.alter`: changes of the table itself: its columns, whether it captures its changes, and its version."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from pyhudi.api.arguments import HudiOptions
from pyhudi.api.handle import TableHandle, changes_table
from pyhudi.errors import ConfigError, InvalidRequestError
from pyhudi.format.log.cdc import LoggingMode
from pyhudi.format.schema.result_tables import table_of
from pyhudi.format.timeline.table_version import NEWEST, TABLE_VERSIONS, TableVersion
from pyhudi.services.cdc.switch import CaptureChanged, switch_capture
from pyhudi.services.columns import column_change
from pyhudi.services.columns.alter import ColumnsChanged, alter_columns
from pyhudi.services.columns.column_change import ColumnChange
from pyhudi.services.upgrade.change import VersionChanged, change_version, planned_change


@dataclass(frozen=True)
class Alter:
    """Changing a table: its columns, the capture of its changes, and its version. `HudiTable.alter` makes it.

    **Columns** are changed by a commit without files; rows stay as they are, and are read under the new columns. A
    column inside of another one is named with points: `person.name`; of a list, `items.element.price`; of a map,
    `prices.value.net`. Letter case does not count. Each call may die at any moment: the table then has the old columns
    or the new ones. A write that is at work gives way to a change of columns that completes before it.

    To rename, drop or move columns they must have ids: the option `hoodie.schema.on.read.enable` allows it. From then
    on JVM Hudi reads older files rightly only where that option is set, too; pyhudi always does.

    These calls raise, before anything is changed: `SchemaMismatchError` for a column that is not there, is there
    already, or makes keys, ordering, partition paths or an index; `UnsupportedFeatureError` where columns need ids and
    must not get them; also `WriteConflictError`, `LockNotAcquiredError`, and `ConfigError` for an illegal option. Each
    costs a commit without files; with ids a listing, a read and three puts more.

    **A version** is only ever changed by `upgrade` and `downgrade`, never by a write. Both may die at any moment: the
    table then has the old version or the new one, whole, and the same call finishes what is left. Writers and readers
    that are at work keep to the version that they loaded and fail with a typed error at their next step; stop them
    first. Both raise, before anything is changed: `UnsupportedFeatureError` for what the other version cannot hold,
    `WriteConflictError` while a write or a service is pending, `ConfigError` for an option that is not legal; also
    `LockNotAcquiredError`.
    """

    _handle: TableHandle = field(repr=False)

    def add_column(
        self,
        name: str,
        type: pa.DataType,  # noqa: A002 - the word of everyone
        *,
        after: str | None = None,
        first: bool = False,
        comment: str | None = None,
        hudi_options: HudiOptions | None = None,
    ) -> ColumnsChanged:
        """Add a column, also inside of a struct; it is null in present rows.

        Args:
            name: its name, behind those of the columns that it is in.
            type: its Arrow type.
            after: the name of the column that it goes behind; by default it goes to the end.
            first: it goes in front of all others.
            comment: what it says of itself.
            hudi_options: `hoodie.schema.on.read.enable`, and the options of locks.

        >>> table.alter.add_column("tip", pa.float64()).schema.names[-1]
        'tip'
        """
        change = column_change.add_column(name, type, after=after, first=first, comment=comment)
        return self._alter(change, hudi_options, call="add_column")

    def drop_column(self, name: str, *, hudi_options: HudiOptions | None = None) -> ColumnsChanged:
        """Drop a column. Its values stay in the files, but a column of that name that is added later is another one."""
        return self._alter(column_change.drop_column(name), hudi_options, call="drop_column")

    def rename_column(self, name: str, to: str, *, hudi_options: HudiOptions | None = None) -> ColumnsChanged:
        """Give a column another name. `to`: the new name alone, also of a column inside of others."""
        return self._alter(column_change.rename_column(name, to), hudi_options, call="rename_column")

    def change_type(
        self,
        name: str,
        type: pa.DataType,  # noqa: A002 - as above
        *,
        hudi_options: HudiOptions | None = None,
    ) -> ColumnsChanged:
        """Give a column a wider type; stored values are read as that type.

        int -> long, float, double, decimal, string; long -> float, double, decimal, string; float -> double, string;
        double -> string; decimal -> wider decimal, string; date -> string; string <-> binary.
        """
        return self._alter(column_change.change_type(name, type), hudi_options, call="change_type")

    def move_column(
        self, name: str, *, after: str | None = None, first: bool = False, hudi_options: HudiOptions | None = None
    ) -> ColumnsChanged:
        """Put a column behind the one that is named `after` beside it, or `first`."""
        return self._alter(column_change.move_column(name, after=after, first=first), hudi_options, call="move_column")

    def allow_null(self, name: str, *, hudi_options: HudiOptions | None = None) -> ColumnsChanged:
        """Let a column be null from now on. There is no way back: JVM Hudi has none either."""
        return self._alter(column_change.allow_null(name), hudi_options, call="allow_null")

    def comment_column(
        self, name: str, comment: str | None, *, hudi_options: HudiOptions | None = None
    ) -> ColumnsChanged:
        """Change the comment of a column; None takes it away."""
        return self._alter(column_change.comment_column(name, comment), hudi_options, call="comment_column")

    @changes_table
    def capture_changes(self, mode: str | None = None, *, hudi_options: HudiOptions | None = None) -> CaptureChanged:
        """Capture the changes of the table from now on, so that `changes(format="cdc")` has updates and deletes.

        Changes of before the switch can be read as long as their files are there: they are found by comparing files.
        JVM Hudi reads those of after the switch alone, so begin at `since` there. A write that began before the switch
        and has not ended keeps it from being made; one that has only loaded the table gives way when it begins.

        Args:
            mode: what writes log of a change: DATA_BEFORE_AFTER, DATA_BEFORE or OP_KEY_ONLY; by default what the table
                had, and at first DATA_BEFORE_AFTER. Readers go by the mode of the table, so it cannot change while
                change data logs of another one are there.
            hudi_options: the options of locks.

        Raises:
            WriteConflictError: a write is running, or a restore or an index build.
            UnsupportedFeatureError: the table has change data logs of another mode, or is one that cannot be written.

        Cost: a listing of the timeline, the table lock, and a put of the properties.

        >>> table.alter.capture_changes().is_on
        True
        """
        kind = None if mode is None else _logging_mode_of(mode)
        return switch_capture(self._handle.service_call(hudi_options, call="capture_changes"), on=True, mode=kind)

    @changes_table
    def stop_capturing_changes(self, *, hudi_options: HudiOptions | None = None) -> CaptureChanged:
        """Capture the changes of the table no longer. Change data logs stay until their file slices are cleaned.

        Change data cannot be asked for then. It can again after `capture_changes`, also that of the time between, as
        long as the files are there. Raises `WriteConflictError` and costs as `capture_changes`.

        >>> table.alter.stop_capturing_changes().is_on
        False
        """
        return switch_capture(self._handle.service_call(hudi_options, call="stop_capturing_changes"), on=False)

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
        return table_of(_PLAN_COLUMNS, rows)

    @changes_table
    def _alter(self, change: ColumnChange, hudi_options: HudiOptions | None, *, call: str) -> ColumnsChanged:
        service_call = self._handle.service_call(hudi_options, call=call)
        return alter_columns(service_call, (change,), by_ids=service_call.config.input.schema_on_read)

    @changes_table
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


def _logging_mode_of(name: Any) -> LoggingMode:
    try:
        return LoggingMode(name.upper())
    except (AttributeError, ValueError) as error:
        known = ", ".join(mode.value for mode in LoggingMode)
        raise ConfigError(f"mode must be one of {known}", mode=repr(name)) from error


def _version_of(number: Any) -> TableVersion:
    version = TABLE_VERSIONS.get(number) if type(number) is int else None
    if version is None:
        raise ConfigError(f"to must be one of the versions {', '.join(map(str, TABLE_VERSIONS))}", to=repr(number))
    return version


_PLAN_COLUMNS = "from_version int64, to_version int64, step string, what string, why string"
