"""Procedures that change a table as a whole: archiving, expiry, its version, its partitions; and its properties."""

from __future__ import annotations

from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.format.timeline.table_version import TABLE_VERSIONS
from pyhudi.sql.procedures.call_context import CallContext, Given, options_of, renamed
from pyhudi.sql.procedures.declared import (
    FILTER,
    TABLE,
    TABLE_OR_PATH,
    Rows,
    flag,
    needed,
    number,
    procedure,
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


@procedure(
    *TABLE_OR_PATH,
    number("min_commits", 20),
    number("max_commits", 30),
    number("retain_commits", 10),
    flag("enable_metadata", True),
    answer="result int",
)
def archive_commits(context: CallContext, given: Given) -> Rows:
    """Moves the oldest completed instants from the active timeline to the archived one."""
    if not given.flag("enable_metadata"):
        raise UnsupportedFeatureError(
            "archiving with enable_metadata => false may leave the metadata table behind: leave the argument out"
        )
    options = {option: str(given.number(name)) for name, option in _ARCHIVE.items()}
    context.table(given).services.archive(hudi_options=options)
    return [(0,)]


@procedure(TABLE, text("ttl_policy"), number("retain_days"), text("options"), answer="deleted_partitions string")
def run_ttl(context: CallContext, given: Given) -> Rows:
    """Drops the partitions that are older than a number of days."""
    options = {**renamed(given, _EXPIRY), **options_of(given)}
    done = context.table(given, options).services.expire_partitions(hudi_options=options)
    return [(partition,) for partition in (done.partitions if done is not None else ())]


@procedure(TABLE, needed("to_version"), answer="result boolean")
def upgrade_table(context: CallContext, given: Given) -> Rows:
    """Takes the table to a newer version: EIGHT or NINE."""
    context.table(given).alter.upgrade(to=_version(given))
    return [(True,)]


@procedure(TABLE, needed("to_version"), answer="result boolean")
def downgrade_table(context: CallContext, given: Given) -> Rows:
    """Takes the table to an older version: SIX or EIGHT."""
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


@procedure(TABLE, needed("partition"), answer="result string")
def drop_partition(context: CallContext, given: Given) -> Rows:
    """Deletes all rows of some partitions, named by their paths."""
    context.table(given).delete_partition(given.words("partition"))
    return [("Success",)]


@procedure(TABLE, text("partitions"), answer="result string, time_cost bigint")
def truncate_table(context: CallContext, given: Given) -> Rows:
    """Deletes all rows, or those of some partitions. As of JVM Hudi, the answer has no rows."""
    table = context.table(given)
    if given.is_given("partitions"):
        table.delete_partition(given.words("partitions"))
    else:
        table.truncate()
    return []


@procedure(*TABLE_OR_PATH, number("limit", 10), FILTER, answer="key string, value string", limits_rows=True)
def show_table_properties(context: CallContext, given: Given) -> Rows:
    """The properties of the table, by name."""
    return sorted(context.table(given).handle.state.config.values.items())
