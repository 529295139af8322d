"""Procedures that change a table as a whole: archiving, expiry, its version, its partitions; and its properties."""

from __future__ import annotations

from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.format.timeline.table_version import TABLE_VERSIONS
from pyhudi.sql.procedures.call_context import CallContext, Given
from pyhudi.sql.procedures.call_options import options_of, renamed
from pyhudi.sql.procedures.declared import (
    FILTER,
    TABLE,
    TABLE_OR_PATH,
    Procedure,
    Rows,
    columns,
    flag,
    needed,
    number,
    text,
)

_NUMBERS = ("ZERO", "ONE", "TWO", "THREE", "FOUR", "FIVE", "SIX", "SEVEN", "EIGHT", "NINE")
_ARCHIVE = {
    "min_commits": "hoodie.keep.min.commits",
    "max_commits": "hoodie.keep.max.commits",
    "retain_commits": "hoodie.clean.commits.retained",
}
_EXPIRY = {
    "ttl_policy": "hoodie.partition.ttl.management.strategy.type",
    "retain_days": "hoodie.partition.ttl.strategy.days.retain",
}


def _archive_commits(context: CallContext, given: Given) -> Rows:
    if not given.flag("enable_metadata"):
        raise UnsupportedFeatureError(
            "archiving with enable_metadata => false may leave the metadata table behind: leave the argument out"
        )
    options = {option: str(given.number(name)) for name, option in _ARCHIVE.items()}
    context.table(given).services.archive(hudi_options=options)
    return [(0,)]


def _run_ttl(context: CallContext, given: Given) -> Rows:
    options = {**renamed(given, _EXPIRY), **options_of(given)}
    done = context.table(given, options).services.expire_partitions(hudi_options=options)
    return [(partition,) for partition in (done.partitions if done is not None else ())]


def _upgrade_table(context: CallContext, given: Given) -> Rows:
    context.table(given).alter.upgrade(to=_version(given))
    return [(True,)]


def _downgrade_table(context: CallContext, given: Given) -> Rows:
    context.table(given).alter.downgrade(to=_version(given))
    return [(True,)]


def _version(given: Given) -> int:
    """A version by its number, or by the word that JVM Hudi has for it."""
    word = given.text("to_version").strip().upper()
    known = {name: number for number, name in enumerate(_NUMBERS) if number in TABLE_VERSIONS}
    known |= {str(number): number for number in TABLE_VERSIONS}
    if word not in known:
        raise ConfigError(f"to_version must be one of {', '.join(known)}", to_version=word)
    return known[word]


def _drop_partition(context: CallContext, given: Given) -> Rows:
    context.table(given).delete_partition(given.words("partition"))
    return [("Success",)]


def _truncate_table(context: CallContext, given: Given) -> Rows:
    table = context.table(given)
    if given.is_given("partitions"):
        table.delete_partition(given.words("partitions"))
    else:
        table.truncate()
    return []


def _show_table_properties(context: CallContext, given: Given) -> Rows:
    return sorted(context.table(given).handle.state.config.values.items())


PROCEDURES = (
    Procedure(
        name="archive_commits",
        what="Moves the oldest completed instants from the active timeline to the archived one.",
        parameters=(
            *TABLE_OR_PATH,
            number("min_commits", 20),
            number("max_commits", 30),
            number("retain_commits", 10),
            flag("enable_metadata", True),
        ),
        columns=columns("result int"),
        run=_archive_commits,
    ),
    Procedure(
        name="run_ttl",
        what="Drops the partitions that are older than a number of days.",
        parameters=(TABLE, text("ttl_policy"), number("retain_days"), text("options")),
        columns=columns("deleted_partitions string"),
        run=_run_ttl,
    ),
    Procedure(
        name="upgrade_table",
        what="Takes the table to a newer version: EIGHT or NINE.",
        parameters=(TABLE, needed("to_version")),
        columns=columns("result boolean"),
        run=_upgrade_table,
    ),
    Procedure(
        name="downgrade_table",
        what="Takes the table to an older version: SIX or EIGHT.",
        parameters=(TABLE, needed("to_version")),
        columns=columns("result boolean"),
        run=_downgrade_table,
    ),
    Procedure(
        name="drop_partition",
        what="Deletes all rows of some partitions, named by their paths.",
        parameters=(TABLE, needed("partition")),
        columns=columns("result string"),
        run=_drop_partition,
    ),
    Procedure(
        name="truncate_table",
        what="Deletes all rows, or those of some partitions. As of JVM Hudi, the answer has no rows.",
        parameters=(TABLE, text("partitions")),
        columns=columns("result string, time_cost bigint"),
        run=_truncate_table,
    ),
    Procedure(
        name="show_table_properties",
        what="The properties of the table, by name.",
        parameters=(*TABLE_OR_PATH, number("limit", 10), FILTER),
        columns=columns("key string, value string"),
        run=_show_table_properties,
        limits_rows=True,
    ),
)
