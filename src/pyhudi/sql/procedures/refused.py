"""Procedures of JVM Hudi that this release does not run, each with the reason and what to do instead."""

from __future__ import annotations

from typing import NoReturn

from pyhudi.errors import InternalError
from pyhudi.sql.procedures.call_context import CallContext, Given
from pyhudi.sql.procedures.declared import TABLE, Procedure, columns, flag, needed, number, text


def _never(context: CallContext, given: Given) -> NoReturn:
    del context, given
    raise InternalError("a refused procedure was run")


SYNC_VALIDATE = Procedure(
    name="sync_validate",
    what="Not run: it compares two tables through a Hive server.",
    parameters=(
        *(needed(name) for name in ("src_table", "dst_table", "mode", "hive_server_url", "hive_pass")),
        text("src_db", "rawdata"),
        text("target_db", "dwh_hoodie"),
        number("partition_cnt", 5),
        text("hive_user", ""),
    ),
    columns=columns("result string"),
    run=_never,
    refusal="no Hive server is asked; commits_compare compares two tables, and SELECT count(*) their rows",
)
PARTITION_BUCKET_INDEX_MANAGER = Procedure(
    name="partition_bucket_index_manager",
    what="Not run: the number of buckets of a partition that has files is not changed.",
    parameters=(
        TABLE,
        text("overwrite"),
        number("bucket_number", -1),
        text("add"),
        flag("dry_run", True),
        text("rollback"),
        flag("show_config", False),
        text("rule", "regex"),
        text("options"),
    ),
    columns=columns("result string, operation string, details string"),
    run=_never,
    refusal="rules for the buckets of partitions are given to writes "
    "(hoodie.bucket.index.partition.expressions), and hold for partitions without files; partitions that have some "
    "grow with a consistent bucket index, by clustering",
)
REPAIR_DEDUPLICATE = Procedure(
    name="repair_deduplicate",
    what="Not run: it would exchange base files of completed writes.",
    parameters=(
        TABLE,
        needed("duplicated_partition_path"),
        needed("repaired_output_path"),
        flag("dry_run", True),
        text("dedupe_type", "insert_type"),
    ),
    columns=columns("result string"),
    run=_never,
    refusal="base files of completed writes are not exchanged in place: read the partition, drop its repeated "
    "keys, and write it with INSERT OVERWRITE",
)
