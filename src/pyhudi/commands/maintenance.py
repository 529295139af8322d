"""Commands that look after a table: one service at a time, its indexes, and its version."""

from __future__ import annotations

import argparse
from typing import Final

from pyhudi.commands.arguments import DRY_RUN, JSON, TABLE, argument, command, names_of, one_of, opened
from pyhudi.commands.output import Output, progress_on_terminal
from pyhudi.errors import InvalidRequestError

_NOTHING_EXAMINED: Final = (
    "no file slice was examined: there are no more writes than the policy retains (hoodie.clean.commits.retained, 10),"
    " or none has changed a partition since the last clean"
)


@command(
    TABLE, argument("--logs", action="store_true", help="merge logs into one log for each slice instead"), DRY_RUN, JSON
)
def compact(chosen: argparse.Namespace, output: Output) -> None:
    """Merge the logs of a merge-on-read table into new base files."""
    services = opened(chosen).services
    if chosen.dry_run and chosen.logs:
        raise InvalidRequestError("--dry-run plans compactions, not --logs: leave one of them out")
    if chosen.dry_run:
        output.plan(services.plan_compaction(), "compacts", stays="file slices stay")
        return
    merge = services.compact_logs if chosen.logs else services.compact
    output.result(merge(on_progress=progress_on_terminal()), none="nothing to compact", sizes=("bytes",))


@command(TABLE, DRY_RUN, JSON)
def cluster(chosen: argparse.Namespace, output: Output) -> None:
    """Rewrite small files into files of a good size, sorted if options say by what."""
    services = opened(chosen).services
    if chosen.dry_run:
        output.plan(services.plan_clustering(), "clusters", stays="file slices stay")
        return
    output.result(services.cluster(on_progress=progress_on_terminal()), none="nothing to cluster", sizes=("bytes",))


@command(TABLE, DRY_RUN, JSON)
def clean(chosen: argparse.Namespace, output: Output) -> None:
    """Delete the file slices that no retained state of the table needs."""
    services = opened(chosen).services
    if chosen.dry_run:
        planned = services.plan_clean()
        output.plan(planned, "deletes", stays="file slices stay")
        if not planned.num_rows:
            output.note(_NOTHING_EXAMINED)
        return
    output.result(services.clean(on_progress=progress_on_terminal()), none="nothing to clean")


@command(TABLE, DRY_RUN, JSON)
def archive(chosen: argparse.Namespace, output: Output) -> None:
    """Move the oldest completed instants from the active timeline to the archived one."""
    services = opened(chosen).services
    if chosen.dry_run:
        output.plan(services.plan_archive(), "archives", stays="instants stay")
        return
    output.result(services.archive(), none="nothing to archive")


@command(TABLE, DRY_RUN, JSON)
def expire(chosen: argparse.Namespace, output: Output) -> None:
    """Drop the partitions that are older than an option says (hoodie.partition.ttl.strategy.days.retain)."""
    services = opened(chosen).services
    if chosen.dry_run:
        output.plan(services.plan_expiry(), "expires", stays="partitions stay")
        return
    output.result(services.expire_partitions(), none="no partition is too old")


@command(
    TABLE,
    one_of(
        argument(
            "--create",
            metavar="NAME",
            help="record_index, column_stats, partition_stats, bloom_filters, or any other name",
        ),
        argument("--refresh", metavar="NAME", help="build it again"),
        argument("--drop", metavar="NAME", help="take it out of the table"),
    ),
    argument("--kind", help="of an index with another name: secondary or expression"),
    argument("--columns", type=names_of, default=[], metavar="NAMES", help="separated by commas"),
    DRY_RUN,
    JSON,
)
def index(chosen: argparse.Namespace, output: Output) -> None:
    """List the indexes of a table, build one, build it again, or drop it."""
    indexes = opened(chosen).indexes
    if (chosen.kind or chosen.columns) and chosen.create is None:
        raise InvalidRequestError("--kind and --columns are of a new index: give its name with --create")
    if chosen.dry_run or not (chosen.create or chosen.refresh or chosen.drop):
        output.rows(indexes.list(), none="no indexes")
    elif chosen.create:
        output.result(indexes.create(chosen.create, chosen.kind, chosen.columns), none="", sizes=("bytes",))
    elif chosen.refresh:
        output.result(indexes.refresh(chosen.refresh), none="", sizes=("bytes",))
    else:
        indexes.drop(chosen.drop)
        output.record({"dropped": chosen.drop})


@command(TABLE, argument("--to", type=int, default=9, choices=(6, 8, 9), help="the version (9)"), DRY_RUN, JSON)
def upgrade(chosen: argparse.Namespace, output: Output) -> None:
    """Take a table to another version: 8 for JVM Hudi 1.0 and later, 9 for 1.1 and later; 6 and 8 also back."""
    table = opened(chosen)
    if chosen.dry_run:
        output.rows(table.alter.plan_version(chosen.to), none=f"the table has version {chosen.to}")
    elif chosen.to < table.inspect.detail().version:
        output.result(table.alter.downgrade(chosen.to), none="")
    else:
        output.result(table.alter.upgrade(chosen.to), none="")


@command(TABLE, DRY_RUN, JSON)
def sync(chosen: argparse.Namespace, output: Output) -> None:
    """Make the entries of the table in a Hive metastore, or in AWS Glue, right as of its newest write."""
    table = opened(chosen)
    output.rows(table.catalog.plan_sync() if chosen.dry_run else table.catalog.sync())
