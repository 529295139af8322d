"""The time that a planned bootstrap would take, estimated by some rows of its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from pyhudi.config.options_bootstrap import BootstrapMode
from pyhudi.engine.protocol import Engine
from pyhudi.environment import SYSTEM
from pyhudi.format.timeline.instant import FULL_RECORD_INSTANT, SKELETON_INSTANT
from pyhudi.storage.memory import MemoryStorage
from pyhudi.table.state import TableState, create_table
from pyhudi.tasks.sample_source import SampleTask, seconds_per_row
from pyhudi.tasks.skeletons import SKELETON_SCHEMA
from pyhudi.transaction.markers.announcing import DIRECT_MARKERS
from pyhudi.write.bootstrap.plan import BootstrapPlan
from pyhudi.write.create import table_properties
from pyhudi.write.job import WriteJob, prepare


def with_seconds(plan: BootstrapPlan, table: TableState | None, options: Mapping[str, str], engine: Engine) -> pa.Table:
    """The plan as a table, with estimates. Cost: some rows of the largest file of each mode.

    `table`: the one that rows are copied to; None for one that is not there yet.

    Raises what the bootstrap raises before it reads rows; and `RecordKeyError` if one of these rows has no key.
    """
    if table is None:
        table = create_table(MemoryStorage(), table_properties(plan.config))
    job = prepare(table, plan.config, plan.columns.schema, engine=engine, environment=SYSTEM, options=options)
    modes = [mode for mode in BootstrapMode if plan.partitions_of(mode)]
    found = engine.map(
        seconds_per_row, [_sample(job, plan, mode) for mode in modes], size_bytes=0, description="time some rows"
    )
    return plan.to_table({mode: seconds / engine.parallelism for mode, seconds in zip(modes, found, strict=True)})


def _sample(job: WriteJob, plan: BootstrapPlan, mode: BootstrapMode) -> SampleTask:
    largest = max((info for path in plan.partitions_of(mode) for info in plan.source.files[path]), key=lambda x: x.size)
    file = plan.source.source_file(largest)
    if mode is BootstrapMode.METADATA_ONLY:
        target = replace(job.target(SKELETON_INSTANT, DIRECT_MARKERS), heartbeat=None, schema=SKELETON_SCHEMA)
        return SampleTask(target, job.keys, job.key_columns, file)
    target = replace(job.target(FULL_RECORD_INSTANT, DIRECT_MARKERS), heartbeat=None)
    return SampleTask(target, job.keys, job.schema.arrow, file)
