"""Table features: what a table may require of readers, writers and table services, and what this release supports.

Every feature is a row of `FEATURES`: how a table shows that it has it, and what this release refuses then. An
unsupported feature is refused by name, with the remedy, before anything is read or written: for a read when the table
is loaded, for a write and a table service before the first request that changes anything.

Fully supported features need no row, except those that are easily mistaken for another.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from pyhudi.config.bucket_properties import stored_buckets
from pyhudi.config.enums import BucketEngine, MergeMode, TableType
from pyhudi.config.jvm_names import KEY_GENERATORS_OF_WRITES
from pyhudi.config.known_properties import is_known_property
from pyhudi.config.merge_properties import strategy_id, unknown_merge_properties
from pyhudi.config.payloads import COMMIT_TIME_PAYLOAD, rule_of_payload
from pyhudi.config.property_reader import Properties
from pyhudi.config.table_config import TableConfig
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.keys.generator_types import KeyGeneratorType
from pyhudi.format.metadata.partition import PARTITION_METADATA_FILE
from pyhudi.format.safe_paths import METADATA_FOLDER
from pyhudi.table.hashing_config import HASHING_CONFIG_FOLDER, has_hashing_config
from pyhudi.table.index_features import Facts, other_expression_index, other_secondary_index
from pyhudi.table.metadata_partitions import is_maintained

HASHING_METADATA_FOLDER: Final = ".hoodie/.bucket_index/consistent_hashing_metadata"


class Use(enum.Enum):
    """A use of a table; the value completes the sentence "this release cannot … this table"."""

    READ = "read"
    WRITE = "write"
    COMPACT = "compact"
    ROLL_BACK = "roll back writes of"
    CLUSTER = "cluster"


_TO_CHANGE: Final = frozenset({Use.WRITE, Use.COMPACT, Use.ROLL_BACK})
_ALL: Final = frozenset(Use)


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """One feature that a table may have.

    `shown_by`: how it shows, in words. `found`: what a table has of it, to complete "this table has …"; or None.
    `refused`: the uses for which a table with it is refused. `remedy`: what the caller can do then. `at_load`: whether
    the properties and the names on the timeline are enough to find it; otherwise a file of the table is read.
    """

    name: str
    shown_by: str
    found: Callable[[Facts], str | None]
    refused: frozenset[Use]
    remedy: str
    at_load: bool = True


def check_loadable(table: Facts) -> None:
    """Raise `UnsupportedFeatureError` for a table that this release cannot read.

    Cost: no request, except a listing for a table without any instant.
    """
    _refuse(table, Use.READ, (feature for feature in FEATURES if feature.at_load))


def check_writable(table: Facts) -> None:
    """Raise `UnsupportedFeatureError`, with name and remedy, for a table whose rows this release must not change.

    Cost: what `TableState.newest_writes` costs, which a write needs anyway; for merge-on-read tables a listing.
    """
    _refuse(table, Use.WRITE, FEATURES)


def check_compactable(table: Facts) -> None:
    """Raise `UnsupportedFeatureError` for a table whose logs this release must not merge. Cost: as `check_writable`."""
    _refuse(table, Use.COMPACT, FEATURES)


def check_clusterable(table: Facts) -> None:
    """Raise `UnsupportedFeatureError` for a table whose rows this release must not put into other file groups.

    Cost: as `check_writable`.
    """
    check_writable(table)
    _refuse(table, Use.CLUSTER, FEATURES)


def check_undoable(table: Facts) -> None:
    """Raise `UnsupportedFeatureError` for a table of which this release must not roll back any write.

    Cost: no request, except for the rare table whose properties do not show whether it has partitions. No commit is
    read: the one that is rolled back may be deleted at any moment.
    """
    _refuse(table, Use.ROLL_BACK, FEATURES)


def _refuse(table: Facts, use: Use, features: Iterator[Feature] | tuple[Feature, ...]) -> None:
    judged = (feature for feature in features if use in feature.refused)
    found = [(feature, what) for feature in judged if (what := feature.found(table)) is not None]
    if found:
        raise UnsupportedFeatureError(
            f"this release cannot {use.value} this table: it has "
            + "; ".join(f"{what} ({feature.remedy})" for feature, what in found),
            path=table.config.path,
            features=tuple(feature.name for feature, _ in found),
        )


# -- how features show ------------------------------------------------------------------------------------------------


def _slashed_dates(config: TableConfig) -> str | None:
    """Hudi 1.2 does not store the option; the extractor that it infers for catalogs shows it."""
    is_set = config.values.get("hoodie.datasource.write.slash.separated.date.partitioning", "").lower() == "true"
    extractor = config.values.get("hoodie.table.partition_extractor_class", "")
    is_inferred = extractor.endswith(".SlashEncodedDayPartitionValueExtractor") and config.key_generator_type not in (
        KeyGeneratorType.TIMESTAMP,
        KeyGeneratorType.CUSTOM,
    )
    return "partition folders of the form 2026/01/31" if is_set or is_inferred else None


def _by_property(tells: Callable[[TableConfig], str | None]) -> Callable[[Facts], str | None]:
    return lambda table: tells(table.config)


def _when_set(key: str, what: str) -> Callable[[Facts], str | None]:
    return lambda table: what if table.config.values.get(key, "false").lower() == "true" else None


def _only_merge_on_read(tells: Callable[[TableConfig], str | None]) -> Callable[[Facts], str | None]:
    return lambda table: tells(table.config) if table.config.table_type is TableType.MERGE_ON_READ else None


def _base_format(config: TableConfig) -> str | None:
    return None if config.base_file_format == "PARQUET" else f"data files in the format {config.base_file_format}"


def _log_format(config: TableConfig) -> str | None:
    log_format = config.values.get("hoodie.table.log.file.format") or "HOODIE_LOG"
    return None if log_format.upper() == "HOODIE_LOG" else f"log files in the format {log_format}"


def _bootstrap_index(config: TableConfig) -> str | None:
    if not config.values.get("hoodie.bootstrap.base.path"):
        return None
    kind = config.values.get("hoodie.bootstrap.index.type") or "HFILE"
    class_ = config.values.get("hoodie.bootstrap.index.class") or "HFileBootstrapIndex"
    enabled = config.values.get("hoodie.bootstrap.index.enable") or "true"
    if kind.upper() == "HFILE" and class_.endswith("HFileBootstrapIndex") and enabled.lower() == "true":
        return None
    return f"a bootstrap without an index of HFiles ({kind}, {class_}, enabled: {enabled})"


def _table_format(config: TableConfig) -> str | None:
    table_format = config.values.get("hoodie.table.format") or "native"
    return None if table_format == "native" else f"the table format {table_format}"


def _unknown_keys(config: TableConfig) -> str | None:
    """Without the column of record keys, they are made from columns, if the key generator of the writer is known."""
    is_of_two_forms = config.key_generator_type is KeyGeneratorType.COMPLEX and len(config.record_key_fields) == 1
    is_certain = config.record_key_fields and not (is_of_two_forms and not config.version.names_single_key_field)
    if config.populate_meta_fields or (is_certain and _key_generator(config) is None):
        return None
    return "logs without the _hoodie_* columns, and record keys that only its writer can make"


def _storage_layout(config: TableConfig) -> str | None:
    layout = config.values.get("hoodie.table.storage.layout") or "default"
    return None if layout.lower() == "default" else f"the storage layout {layout}"


def _meta_fields_mode(config: TableConfig) -> str | None:
    mode = config.values.get("hoodie.meta.fields.mode") or "ALL"
    return None if mode.upper() == "ALL" else f"the _hoodie_* columns of mode {mode}"


def _key_generator(config: TableConfig) -> str | None:
    if config.key_generator_type in KEY_GENERATORS_OF_WRITES:
        return None
    by_type = config.values.get("hoodie.table.keygenerator.type", config.key_generator_type.value)
    return f"the key generator {config.values.get('hoodie.table.keygenerator.class', by_type)}"


def _partition_fields(table: Facts) -> str | None:
    """A table without partitions has a partition metadata file in its own folder. Cost: one request for such tables."""
    if table.config.partition_fields is not None or table.storage.info(PARTITION_METADATA_FILE) is not None:
        return None
    return "no property hoodie.table.partition.fields, and nothing that says that it has no partitions"


def _merging(config: TableConfig) -> str | None:
    if config.merge_mode is not MergeMode.CUSTOM or config.merger_name is not None:
        return None
    # With the strategy of a Java merger, a known payload class beside it has no meaning.
    if rule_of_payload(config.payload_class or COMMIT_TIME_PAYLOAD).merge_mode is MergeMode.CUSTOM:
        return f"the record payload {config.payload_class}"
    strategy = strategy_id(Properties(config.values, config.path))
    return f"the merge strategy {strategy}" if strategy else "the CUSTOM merge mode"


def _merge_properties(config: TableConfig) -> str | None:
    unknown = tuple(unknown_merge_properties(config.values))
    return f"the merge property {', '.join(unknown)}" if unknown else None


def _unknown_properties(config: TableConfig) -> str | None:
    unknown = sorted(key for key in config.values if not is_known_property(key))
    return f"the property {', '.join(unknown)}" if unknown else None


def _completed_foreigners(table: Facts) -> str | None:
    names = [name for name in table.timeline.foreign if not name.endswith((".requested", ".inflight"))]
    return f"the instant {names[0]}" if names else None


def _pending_foreigners(table: Facts) -> str | None:
    names = [name for name in table.timeline.foreign if name.endswith((".requested", ".inflight"))]
    return f"the pending instant {names[0]}" if names else None


def _other_layout(table: Facts) -> str | None:
    """Cost: a listing for a table without any instant; nothing for others."""
    if table.timeline.instants:
        return None
    folder = METADATA_FOLDER if table.timeline.version.has_completion_times else f"{METADATA_FOLDER}/timeline"
    names = [name for name in table.storage.list_names(folder) if _INSTANT_FILE.match(name)]
    return f"its instants in {folder}, where another table version has them" if names else None


_INSTANT_FILE: Final = re.compile(r"[0-9]{14,}(?:_[0-9]+)?\.[a-z]")
_BUCKET_ID: Final = re.compile(
    r"([0-9]{8})-(?:0000-0000-0000-0{12}|[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12})(?:-[0-9]+)?"
)
"""The number of a bucket instead of the first eight digits of a random UUID, or before zeros only."""
_BUCKET_MAX: Final = {1: 9_999, 2: 99_999, 3: 99_999, 4: 99_999}
"""Up to which number so few file groups count as buckets: of random ids, one in 400,000 would."""


def bucket_engine_of(table: Facts) -> BucketEngine | None:
    """The bucket index of a table, by its properties or its files; None if it has none.

    Cost: what `newest_writes` and `has_hashing_metadata` cost, unless the properties say it.
    """
    if (stored := stored_buckets(table.config.values, path=table.config.path)) is not None:
        return stored.engine
    if _consistent_buckets(table) is not None:
        return BucketEngine.CONSISTENT_HASHING
    return BucketEngine.SIMPLE if _simple_buckets(table) is not None else None


def _simple_buckets(table: Facts) -> str | None:
    ids = table.newest_writes.file_ids
    numbers = {int(match[1]): id_ for id_ in ids if (match := _BUCKET_ID.fullmatch(id_))}
    # Beside random ids if a writer without a bucket index has written to the table.
    has_two = len([number for number in numbers if number <= _BUCKET_MAX[1]]) > 1
    are_all = all(map(_BUCKET_ID.fullmatch, ids)) and max(numbers, default=0) <= _BUCKET_MAX.get(len(ids), 99_999_999)
    return f"a bucket index (file ids such as {numbers[min(numbers)]})" if numbers and (has_two or are_all) else None


def _simple_bucket_index(table: Facts) -> str | None:
    return "a simple bucket index" if bucket_engine_of(table) is BucketEngine.SIMPLE else None


def _procedural_buckets(table: Facts) -> str | None:
    """Cost: a listing, for tables with a simple bucket index."""
    is_possible = bucket_engine_of(table) is BucketEngine.SIMPLE and has_hashing_config(table.storage)
    return f"other numbers of buckets for some partitions ({HASHING_CONFIG_FOLDER})" if is_possible else None


def _consistent_buckets(table: Facts) -> str | None:
    """Cost: a listing for merge-on-read tables, once; after all buckets were resized, the file ids are random."""
    is_possible = table.config.table_type is TableType.MERGE_ON_READ
    return (
        f"a consistent bucket index ({HASHING_METADATA_FOLDER})" if is_possible and table.has_hashing_metadata else None
    )


def _indexes(config: TableConfig) -> str | None:
    partitions = {*config.metadata_partitions, *config.metadata_partitions_inflight}
    indexes = sorted(name for name in partitions if not is_maintained(name))
    return f"the index {', '.join(indexes)} in its metadata table" if indexes else None


FEATURES: Final[tuple[Feature, ...]] = (
    Feature(
        name="other base file formats",
        shown_by="`hoodie.table.base.file.format` is not PARQUET",
        found=_by_property(_base_format),
        refused=_ALL,
        remedy="use JVM Hudi",
    ),
    Feature(
        name="several base file formats",
        shown_by="`hoodie.table.multiple.base.file.formats.enable`",
        found=_when_set("hoodie.table.multiple.base.file.formats.enable", "data files of several formats"),
        refused=_ALL,
        remedy="use JVM Hudi",
    ),
    Feature(
        name="other log formats",
        shown_by="`hoodie.table.log.file.format` is not HOODIE_LOG",
        found=_by_property(_log_format),
        refused=_ALL,
        remedy="use the release of Hudi that made the table",
    ),
    Feature(
        name="table formats",
        shown_by="`hoodie.table.format` is not native",
        found=_by_property(_table_format),
        refused=_ALL,
        remedy="read it as a table of that format",
    ),
    Feature(
        name="storage layouts",
        shown_by="`hoodie.table.storage.layout`, as `lsm_tree`",
        found=_by_property(_storage_layout),
        refused=_ALL,
        remedy="use the release of Hudi that made the table",
    ),
    Feature(
        name="some of the meta columns",
        shown_by="`hoodie.meta.fields.mode` is not ALL",
        found=_by_property(_meta_fields_mode),
        refused=_ALL,
        remedy="use the release of Hudi that made the table",
    ),
    Feature(
        name="bootstrap indexes of other kinds",
        shown_by="`hoodie.bootstrap.base.path`, with an index in `hoodie.bootstrap.index.type` or `.class` that is "
        "not HFILE, or with `hoodie.bootstrap.index.enable=false`",
        found=_by_property(_bootstrap_index),
        refused=_ALL,
        remedy="copy its rows with JVM Hudi into a new table",
    ),
    Feature(
        name="half an upgrade",
        shown_by="no instant where the table's version has them, and some where versions below 8, or from 8 on, do",
        found=_other_layout,
        refused=_ALL,
        remedy="finish the upgrade or downgrade with JVM Hudi",
    ),
    Feature(
        name="unknown completed actions",
        shown_by="a completed instant on the timeline whose action is none of Hudi 1.2's",
        found=_completed_foreigners,
        refused=_ALL,
        remedy="use the release of Hudi that wrote it",
    ),
    Feature(
        name="unknown pending actions",
        shown_by="a pending instant on the timeline whose action is none of Hudi 1.2's",
        found=_pending_foreigners,
        refused=_TO_CHANGE,
        remedy="let the release of Hudi that wrote it finish it, or roll it back",
    ),
    Feature(
        name="merging without record keys",
        shown_by="`hoodie.populate.meta.fields=false`, merge-on-read, and keys that cannot be made from the columns",
        found=_only_merge_on_read(_unknown_keys),
        refused=frozenset({Use.READ}),
        remedy="read it with JVM Hudi",
    ),
    Feature(
        name="no meta columns",
        shown_by="`hoodie.populate.meta.fields=false`",
        found=_by_property(
            lambda config: None if config.populate_meta_fields else "data files without the _hoodie_* columns"
        ),
        refused=_TO_CHANGE,
        remedy="write it with JVM Hudi",
    ),
    Feature(
        name="merging in Java, to read",
        shown_by="the CUSTOM merge mode with a payload class or strategy, on a merge-on-read table",
        found=_only_merge_on_read(_merging),
        refused=frozenset({Use.READ}),
        remedy="read it with JVM Hudi, which loads the class",
    ),
    Feature(
        name="merging in Java, to write",
        shown_by="the CUSTOM merge mode with a payload class or strategy that pyhudi has no rule for",
        found=_by_property(_merging),
        refused=_TO_CHANGE,
        remedy="write it with JVM Hudi, which loads the class",
    ),
    Feature(
        name="unknown merge properties, to read",
        shown_by="another `hoodie.record.merge.property.*`, on a merge-on-read table",
        found=_only_merge_on_read(_merge_properties),
        refused=frozenset({Use.READ}),
        remedy="use JVM Hudi",
    ),
    Feature(
        name="unknown merge properties, to write",
        shown_by="another `hoodie.record.merge.property.*`",
        found=_by_property(_merge_properties),
        refused=_TO_CHANGE,
        remedy="use JVM Hudi",
    ),
    Feature(
        name="unknown properties",
        shown_by="a `hoodie.*` property that Hudi 1.2 and before do not have",
        found=_by_property(_unknown_properties),
        refused=_TO_CHANGE,
        remedy="write it with the release of Hudi that set it, or take it out of hoodie.properties if it means nothing",
    ),
    Feature(
        name="dropped partition columns",
        shown_by="`hoodie.datasource.write.drop.partition.columns`",
        found=_by_property(
            lambda config: "data files without the partition columns" if config.drop_partition_columns else None
        ),
        refused=_TO_CHANGE,
        remedy="write it with JVM Hudi",
    ),
    Feature(
        name="slash-separated dates",
        shown_by="`hoodie.datasource.write.slash.separated.date.partitioning`, or a "
        "`SlashEncodedDayPartitionValueExtractor` with a key generator that does not format dates",
        found=_by_property(_slashed_dates),
        refused=_TO_CHANGE,
        remedy="write it with JVM Hudi",
    ),
    Feature(
        name="key generators",
        shown_by="`hoodie.table.keygenerator.type` or `.class`: a class of the user's own, and some of Hudi's",
        found=_by_property(_key_generator),
        refused=_TO_CHANGE,
        remedy="write it with JVM Hudi, which loads the class",
    ),
    Feature(
        name="unknown partition fields",
        shown_by="no `hoodie.table.partition.fields`, no NON_PARTITION key generator, no partition mark in its folder",
        found=_partition_fields,
        refused=_TO_CHANGE,
        remedy="Hudi would not see what is written; set it in hoodie.properties, empty for a table without partitions",
        at_load=False,
    ),
    Feature(
        name="indexes in the metadata table",
        shown_by="`hoodie.table.metadata.partitions` names a partition that is none of "
        "`files`, `column_stats`, `partition_stats`, `bloom_filters`, `record_index`, "
        "`secondary_index_*` and `expr_index_*`",
        found=_by_property(_indexes),
        refused=_TO_CHANGE,
        remedy="write it with JVM Hudi, which keeps the index, or drop it by table.indexes.drop",
    ),
    Feature(
        name="other secondary indexes",
        shown_by="the definition of a secondary index names another type of column than text, whole numbers, dates or "
        "timestamps, or the table has a merger of its own",
        found=other_secondary_index,
        refused=_TO_CHANGE,
        remedy="write it with JVM Hudi, which keeps the index, or drop it by table.indexes.drop",
        at_load=False,
    ),
    Feature(
        name="other expression indexes",
        shown_by="the definition of an expression index names a function that is not known (`split`) or part of a "
        "column; or bloom filters, in a merge-on-read table; or the table was bootstrapped",
        found=other_expression_index,
        refused=_TO_CHANGE,
        remedy="drop it by table.indexes.drop",
        at_load=False,
    ),
    Feature(
        name="simple bucket index",
        shown_by="`hoodie.index.type=BUCKET`, or file ids that begin with eight decimal digits, the number of a bucket",
        found=_simple_bucket_index,
        refused=frozenset({Use.CLUSTER}),
        remedy="its buckets say which file group a row is in",
        at_load=False,
    ),
    Feature(
        name="buckets that a procedure numbered",
        shown_by="`.hoodie/.hashing_meta`, which the procedure partition_bucket_index_manager of JVM Hudi makes",
        found=_procedural_buckets,
        refused=frozenset({Use.WRITE}),
        remedy="write it with JVM Hudi, which reads the rules there",
        at_load=False,
    ),
)


def as_markdown() -> str:
    """The table of features as the documentation shows it."""
    lines = ["| feature | how a table shows it | refused | instead |", "|---|---|---|---|"]
    for feature in FEATURES:
        uses = ", ".join(use.name.lower().replace("_", " ") for use in Use if use in feature.refused)
        lines.append(f"| {feature.name} | {feature.shown_by} | {uses} | {feature.remedy} |")
    return "\n".join(lines)
