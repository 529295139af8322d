"""The options of reads. Every key that a read honours is declared here, once."""

# ruff: noqa: RUF009 - option() declares a field, as dataclasses.field does
from __future__ import annotations

from dataclasses import dataclass

from pyhudi.config.enums import IncrementalFormat, QueryType
from pyhudi.config.option import option
from pyhudi.config.parsers import boolean, fixed, text


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Which state of the table, or which changes of it, a read returns."""

    query_type: QueryType = option(
        "hoodie.datasource.query.type",
        aliases=("hoodie.datasource.view.type",),
        default=QueryType.SNAPSHOT,
        doc="`snapshot`: the newest state. `read_optimized`: the newest state without log files, so for merge-on-read "
        "tables the state at the last compaction of each file group. `incremental`: the rows that changed after "
        "`begin.instanttime`.",
    )
    as_read_optimized: bool | None = option(
        "hoodie.query.as.ro.table",
        parse=boolean(),
        default=None,
        doc="An older option for the query type, which catalogs store with a table: true is `read_optimized`, false"
        " `snapshot`.",
    )
    as_of: str | None = option(
        "as.of.instant",
        parse=text("a time like 20260131235959999, 2026-01-31 23:59:59.999 or 2026-01-31"),
        default=None,
        doc="Time travel: the state of the table at this time.",
    )
    begin: str | None = option(
        "hoodie.datasource.read.begin.instanttime",
        parse=text("an instant time, or `earliest`"),
        default=None,
        doc="incremental: changes after this time, exclusive: a completion time, in table version 6 an instant. With a"
        " value of `_hoodie_commit_time`, versions 8 and 9 give that write again. `earliest` or `000`: from the first.",
    )
    end: str | None = option(
        "hoodie.datasource.read.end.instanttime",
        parse=text("an instant time"),
        default=None,
        doc="incremental: changes up to this time, inclusive, which is of the same kind; without it, up to the newest.",
    )
    merge_type: str = option(
        "hoodie.datasource.merge.type",
        parse=fixed(
            "payload_combine",
            refused={"SKIP_MERGE": "rows of base and log files side by side are not supported: use payload_combine"},
        ),
        default="payload_combine",
        doc="snapshot of a merge-on-read table: the records of its log files are merged.",
    )
    incremental_format: IncrementalFormat = option(
        "hoodie.datasource.query.incremental.format",
        default=IncrementalFormat.LATEST_STATE,
        doc="incremental: changed rows as they are at the end, or all changes, with the rows before and after each.",
    )
    fall_back_to_full_scan: bool = option(
        "hoodie.datasource.read.incr.fallback.fulltablescan.enable",
        default=False,
        doc="incremental, if files of the interval have been cleaned, so that its rows cannot be read as of its end."
        " false: an error. true: the rows that no later write has changed or deleted, from a scan of the whole table."
        " JVM Hudi's default is true.",
    )
    data_skipping: bool = option(
        "hoodie.enable.data.skipping",
        default=True,
        doc="Whether reads with a condition leave files out by the indexes of the metadata table, without opening"
        " them.",
    )
    plain_partitions: bool = option(
        "hoodie.pyhudi.read.plain.partitions",
        default=False,
        doc="Whether a snapshot also has the rows of folders whose Parquet files are not Hudi's: partitions from "
        "before the folder was a table. Their `_hoodie_*` columns are null.",
    )
    skip_damaged_files: bool = option(
        "hoodie.pyhudi.read.skip.damaged.files",
        default=False,
        doc="Whether missing and damaged files of completed writes are left out, with a warning that names them, as in "
        "JVM Hudi. Rows are then missing, or in an older version. false: an error.",
    )
