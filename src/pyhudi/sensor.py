"""A sensor of Apache Airflow that waits until a partition of a table is complete (`pip install 'pyhudi[airflow]'`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, timedelta, tzinfo
from typing import Any, ClassVar, Final

from pyhudi.api.arguments import HudiOptions
from pyhudi.api.hudi_table import HudiTable
from pyhudi.errors import TableNotFoundError, UnsupportedFeatureError

try:
    from airflow.sdk import BaseSensorOperator, PokeReturnValue
except ImportError:  # without Airflow this module can be imported, and its sensor says what is missing
    BaseSensorOperator = object
    PokeReturnValue = None

__all__ = ["HudiPartitionSensor"]

_NONE: Final = timedelta()


class HudiPartitionSensor(BaseSensorOperator):  # type: ignore[misc]
    """Waits until all events of a partition are in a table, by the event times that its writers report.

    Its XCom is the write with which the partition was seen to be complete: `table.inspect.late_rows(partition, write)`
    counts the rows that came later. A table that is not there yet is waited for.

    Args:
        table_path: the table's folder: a path, or a URI of an object store; may be a template.
        partition: its path, such as `{{ logical_date.strftime("%Y-%m-%d/%H") }}`.
        lateness: how much later than others an event of the same source may be written (`spedGapTime` elsewhere).
        sources: sources that must have written.
        idle_after: leave out sources that have written nothing for so long.
        zone: whose hours and days the partitions are.
        hudi_options: options of the store.
        arguments: those of Airflow's BaseSensorOperator, such as `task_id`, `poke_interval`, `timeout` and `mode`.

    Raises:
        UnsupportedFeatureError: Airflow is not installed.

    Cost: for each look that of `HudiTable.watermark`.
    """

    template_fields: ClassVar[Sequence[str]] = ("table_path", "partition")

    def __init__(
        self,
        *,
        table_path: str,
        partition: str,
        lateness: timedelta = _NONE,
        sources: Sequence[str] = (),
        idle_after: timedelta | None = None,
        zone: tzinfo = UTC,
        hudi_options: HudiOptions | None = None,
        **arguments: Any,
    ) -> None:
        if PokeReturnValue is None:
            raise UnsupportedFeatureError("the sensor needs Airflow: pip install 'pyhudi[airflow]'")
        super().__init__(**arguments)
        self.table_path = table_path
        self.partition = partition
        self.lateness = lateness
        self.sources = sources
        self.idle_after = idle_after
        self.zone = zone
        self.hudi_options = hudi_options

    def poke(self, context: Mapping[str, Any]) -> Any:
        """Whether the partition is complete, and the newest write of the table that reported an event time."""
        del context
        try:
            table = HudiTable.for_path(self.table_path, hudi_options=self.hudi_options)
        except TableNotFoundError:
            return PokeReturnValue(is_done=False)
        watermark = table.watermark(sources=self.sources, idle_after=self.idle_after)
        is_complete = watermark.covers(self.partition, lateness=self.lateness, zone=self.zone)
        return PokeReturnValue(is_done=is_complete, xcom_value=watermark.instant if is_complete else None)
