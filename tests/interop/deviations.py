"""Where a judge is known to answer differently from what was written, and why. Any other difference is a failure."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

SEQUENCE_NUMBER = "_hoodie_commit_seqno"

#: Golden tables whose partition column JVM Hudi takes from the folder names and not from the files, so that it gives
#: the encoded text or the formatted date instead of the value. We give the value, which must fit the partition path.
PARTITION_COLUMN_FROM_PATH = {
    "v6-by-time": "event_ms",
    "v8-by-time": "event_ms",
    "v8-encoded-complex": "city",
    "v9-by-time": "event_ms",
    "v9-encoded-complex": "city",
}

#: Releases whose incremental read counts the commit at `begin` in. 0.15.0 and 1.2.0 do not, and neither do we.
BEGIN_IS_INCLUDED = frozenset({"1.0.2"})

#: Questions about golden merge-on-read tables that 0.15.0 answers without the last commit's rows: it reads a log up to
#: the first block that is younger than that commit, and the block of a rollback by that commit's own writer is. We give
#: what was committed; the next question of the same table, over one commit more, shows that 0.15.0 has the rows.
COMMITTED_ROWS_ARE_HIDDEN = {"v6-rolled-back as-of-3": {"k02": "fourth 2", "k04": "fourth 4"}}

#: Table versions and types of ordering columns for which the version's release cannot read deletes in logs, not even
#: its own: it compares a Java decimal with one of Spark's.
UNREADABLE_DELETES = frozenset({(8, "decimal")})

#: Releases whose MERGE with INSERT clauses alone, into a table without ordering fields, is a plain insert: a record
#: of the source that is stored is there twice afterwards. We insert what is not matched, as the statement says.
ONLY_INSERTS_ARE_PLAIN_INSERTS = frozenset({"1.2.0"})

#: Releases whose MERGE into a merge-on-read table, with an UPDATE of some columns and a row of the source that matches
#: nothing, may write a new base file with these columns alone: all others are null then, those of the key among them.
LOSES_COLUMNS_OF_PARTIAL_UPDATES = frozenset({"1.2.0"})

#: Releases whose MERGE tries the UPDATE clauses of a matched row before its DELETE clauses, whatever their order is.
#: With us the first clause whose condition holds decides, as the standard and Spark have it.
UPDATES_BEFORE_DELETES = frozenset({"1.2.0"})


def late_changes(changes: pa.Table, snapshot: pa.Table) -> pa.Array:
    """Sequence numbers of changes that a snapshot of the same moment does not have: they came too late.

    JVM Hudi gives them, as an incremental read merges only what lies in the interval. hudi-rs does too, but for those
    whose older and better version was compacted in the interval. We give none of them.
    """
    numbers = changes.column(SEQUENCE_NUMBER).combine_chunks()
    return numbers.filter(pc.invert(pc.is_in(numbers, value_set=snapshot.column(SEQUENCE_NUMBER).combine_chunks())))
