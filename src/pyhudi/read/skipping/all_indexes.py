"""All indexes of a table, asked in turn which file slices of a plan have no row for a condition."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.read.conditions import Condition
from pyhudi.read.scan import ScanPlan
from pyhudi.read.skipping.bloom_filters import skip_by_bloom_filters
from pyhudi.read.skipping.bucket_index import skip_by_buckets
from pyhudi.read.skipping.column_statistics import IndexUse, skip_by_indexes
from pyhudi.read.skipping.comparisons import Alternatives
from pyhudi.read.skipping.expression_index import ByExpression, skip_by_expressions
from pyhudi.read.skipping.metadata_read import MetadataOfRead
from pyhudi.read.skipping.predicates import Predicate
from pyhudi.read.skipping.record_index import skip_by_record_index
from pyhudi.read.skipping.secondary_index import skip_by_secondary_indexes


@dataclass(frozen=True, slots=True)
class Asked:
    """A condition in the forms in which indexes understand it.

    Attributes:
        condition: what statistics of columns decide.
        alternatives: the values to which it fixes columns; None where that is not known.
        expressions: what it demands of the expressions that have indexes.
    """

    condition: Condition
    alternatives: Alternatives | None
    expressions: Predicate


def skip_by_all_indexes(metadata: MetadataOfRead, plan: ScanPlan, asked: Asked, *, is_newest: bool) -> ByExpression:
    """What indexes leave of a plan, and what each of them did.

    `is_newest`: the plan is of the newest state of `metadata.table`, with what is in logs. Cost: that of the indexes
    that know columns of the condition; `metadata` is loaded once for all.
    """
    table, values = metadata.table, asked.alternatives
    by_key: IndexUse | None = None
    by_value: tuple[IndexUse, ...] = ()
    plan, by_bucket = skip_by_buckets(table, plan, values, is_newest=is_newest)
    if is_newest:
        plan, by_key = skip_by_record_index(table, plan, values, metadata)
        plan, by_value = skip_by_secondary_indexes(table, plan, values, metadata)
    found = skip_by_expressions(metadata, plan, asked.expressions)
    left, of_statistics = skip_by_indexes(table, found.plan, asked.condition, metadata, is_newest=is_newest)
    by_bloom = None
    if by_key is None and by_bucket is None:
        left, by_bloom = skip_by_bloom_filters(table, left, values, metadata)
    first = tuple(use for use in (by_bucket, by_key, by_bloom) if use is not None)
    return found.within(left, (*first, *by_value, *found.uses, *of_statistics))
