"""The options of one write, typed and checked against each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from pyhudi.config.enums import CompactionStrategy, DuplicatePolicy, IndexType, MergeMode, OverwriteMode
from pyhudi.config.option import read_group, text_of, warn_of_option
from pyhudi.config.options_bootstrap import BootstrapOptions
from pyhudi.config.options_buckets import BucketOptions, bucket_problems
from pyhudi.config.options_catalogs import CatalogOptions
from pyhudi.config.options_cleaning import ArchivingOptions, CleaningOptions, archiving_of, cleaning_of
from pyhudi.config.options_clustering import ClusteringOptions, clustering_problems
from pyhudi.config.options_hooks import CallbackOptions, ValidatorOptions, hook_problems
from pyhudi.config.options_locks import LockOptions, MarkerOptions, lock_problems, marker_problems
from pyhudi.config.options_logs import BLOCK_BYTES_MAX, CompactionOptions, LogOptions
from pyhudi.config.options_merging import MERGER_OPTIONS_KEY, MERGERS_KEY, MemoryOptions, MergingOptions
from pyhudi.config.options_metadata_table import MetadataTableOptions, RecordIndexOptions
from pyhudi.config.options_metrics import MetricsOptions
from pyhudi.config.options_table import KeyOptions, TableOptions
from pyhudi.config.options_ttl import ExpiryOptions
from pyhudi.config.options_write import (
    BloomOptions,
    ConcurrencyOptions,
    FileOptions,
    IndexOptions,
    InputOptions,
    RequestOptions,
)
from pyhudi.config.payloads import PAYLOAD_RULES, rule_of_payload
from pyhudi.config.refused_keys import Side
from pyhudi.config.registry import given_options
from pyhudi.errors import ConfigError
from pyhudi.format.keys.generator_types import KeyGeneratorType, PartitionFieldKind
from pyhudi.format.keys.partition_pattern import PartitionPattern
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.timeline.table_version import NEWEST, TableVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteConfig:
    """The options of one write; `WriteConfig()` has the default of each.

    `table` has the options about the table; the properties of an existing table are in its `TableConfig`.
    `extra_metadata` are the options that the user wants to store in the commit metadata.
    """

    what: RequestOptions = field(default_factory=RequestOptions)
    table: TableOptions = field(default_factory=TableOptions)
    keys: KeyOptions = field(default_factory=KeyOptions)
    input: InputOptions = field(default_factory=InputOptions)
    index: IndexOptions = field(default_factory=IndexOptions)
    buckets: BucketOptions = field(default_factory=BucketOptions)
    bloom: BloomOptions = field(default_factory=BloomOptions)
    files: FileOptions = field(default_factory=FileOptions)
    merging: MergingOptions = field(default_factory=MergingOptions)
    logs: LogOptions = field(default_factory=LogOptions)
    compaction: CompactionOptions = field(default_factory=CompactionOptions)
    cleaning: CleaningOptions = field(default_factory=CleaningOptions)
    archiving: ArchivingOptions = field(default_factory=ArchivingOptions)
    expiry: ExpiryOptions = field(default_factory=ExpiryOptions)
    clustering: ClusteringOptions = field(default_factory=ClusteringOptions)
    metadata_table: MetadataTableOptions = field(default_factory=MetadataTableOptions)
    record_index: RecordIndexOptions = field(default_factory=RecordIndexOptions)
    bootstrap: BootstrapOptions = field(default_factory=BootstrapOptions)
    memory: MemoryOptions = field(default_factory=MemoryOptions)
    concurrency: ConcurrencyOptions = field(default_factory=ConcurrencyOptions)
    markers: MarkerOptions = field(default_factory=MarkerOptions)
    locks: LockOptions = field(default_factory=LockOptions)
    metrics: MetricsOptions = field(default_factory=MetricsOptions)
    callbacks: CallbackOptions = field(default_factory=CallbackOptions)
    validators: ValidatorOptions = field(default_factory=ValidatorOptions)
    catalog: CatalogOptions = field(default_factory=CatalogOptions)
    extra_metadata: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # of any option, credentials too
    overwritten: PartitionPattern | None = None  # of SQL's PARTITION clause: an overwrite replaces these, too

    @staticmethod
    def from_options(options: Mapping[str, Any]) -> WriteConfig:
        """Parse options. Values may be text or Python values; None counts as not given.

        Warns (`OptionWarning`) about keys without effect.

        Raises:
            ConfigError: a value is illegal, or options contradict each other.
            UnsupportedFeatureError: an option asks for something that this release does not support.
        """
        given = given_options(options, Side.WRITE)
        groups = {name: read_group(group, given) for name, group in _groups().items()}
        groups["table"], groups["merging"] = _merger_of_payload(groups["table"], groups["merging"])
        groups |= {"cleaning": cleaning_of(given), "archiving": archiving_of(given)}
        extra_metadata = _extra_metadata(options, groups["input"].commit_metadata_prefix)
        config = WriteConfig(**groups, extra_metadata=extra_metadata)
        check_combination(config)
        if config.logs.max_block_size > BLOCK_BYTES_MAX:
            warn_of_option(
                f"hoodie.logfile.data.block.max.size exceeds the limit of memory per task: blocks have"
                f" {BLOCK_BYTES_MAX} bytes"
            )
        return config

    @property
    def operation(self) -> WriteOperation:
        """The operation of the write."""
        return self.what.operation

    @property
    def new_table_version(self) -> TableVersion:
        """The format version of the table if this write creates it."""
        return self.table.version or NEWEST

    @property
    def replaces_whole_table(self) -> bool:
        """Whether an overwrite replaces all partitions, and not only those of its rows."""
        if self.operation is WriteOperation.INSERT_OVERWRITE_TABLE:
            return True
        return self.operation is WriteOperation.INSERT_OVERWRITE and self.what.overwrite_mode is OverwriteMode.STATIC

    @property
    def key_generator_type(self) -> KeyGeneratorType | None:
        """The key generator that the options name, by type or by class."""
        return self.table.key_generator_type or self.table.key_generator_class

    @property
    def named_merge_mode(self) -> MergeMode | None:
        """The merge mode that the options name, directly or by strategy id; that of the payload class for CUSTOM."""
        named = self.table.merge_mode or self.table.merge_strategy
        if named is MergeMode.CUSTOM and self.table.payload is not None:
            return rule_of_payload(self.table.payload).merge_mode
        return named

    @property
    def merge_mode(self) -> MergeMode | None:
        """The merge mode that the options ask for: by name, by a merger, or by a payload class."""
        if self.named_merge_mode is not None:
            return self.named_merge_mode
        if self.merging.mergers:
            return MergeMode.CUSTOM
        return rule_of_payload(self.table.payload).merge_mode if self.table.payload is not None else None

    @property
    def delete_marker(self) -> tuple[str, str] | None:
        """The column, and the value of it, that make a row a delete by the options."""
        column, value = self.table.delete_field, self.table.delete_marker
        return (column, value) if column is not None and value is not None else None

    @property
    def duplicate_policy(self) -> DuplicatePolicy:
        """How an insert treats rows whose key is in the table."""
        if self.input.insert_drop_duplicates:
            return DuplicatePolicy.DROP
        return self.input.insert_duplicate_policy

    @property
    def combines_input(self) -> bool:
        """Whether rows with the same key in the batch are combined into one."""
        return {
            WriteOperation.UPSERT: self.input.combine_before_upsert,
            WriteOperation.DELETE: self.input.combine_before_delete,
        }.get(self.operation, self.input.combine_before_insert)

    @property
    def splits(self) -> int | None:
        """The number of tasks that the rows are split into; None: the engine decides."""
        given = {
            WriteOperation.UPSERT: self.input.upsert_splits,
            WriteOperation.DELETE: self.input.delete_splits,
            WriteOperation.BULK_INSERT: self.input.bulk_insert_splits,
        }.get(self.operation, self.input.insert_splits)
        return given or None

    @property
    def moves_partition(self) -> bool:
        """Whether a record moves if its partition path changes. Only global indexes find such records."""
        if self.index.index_type is IndexType.GLOBAL_BLOOM:
            return self.index.bloom_moves_partition
        if self.index.index_type is IndexType.HBASE:
            return self.index.store_moves_partition
        if self.index.index_type.is_in_metadata_table:
            return self.index.record_moves_partition
        return self.index.index_type is IndexType.GLOBAL_SIMPLE and self.index.simple_moves_partition

    @property
    def index_remembers(self) -> bool:
        """Whether the index keeps the file groups of keys somewhere else than in the table."""
        return self.index.index_class is not None or self.index.index_type.remembers


def _groups() -> dict[str, Any]:
    """The groups of options of a write, by the names of their fields."""
    return {part.name: part.default_factory for part in fields(WriteConfig) if isinstance(part.default_factory, type)}


def split_partition_field(declared: str) -> tuple[str, PartitionFieldKind | None]:
    """Split `column:KIND`. The kind is None if there is none.

    Raises:
        ConfigError: the kind is unknown.
    """
    name, colon, kind = declared.partition(":")
    if not colon:
        return name, None
    try:
        return name, PartitionFieldKind(kind.upper())
    except ValueError as error:
        raise ConfigError(
            f"the partition field {declared!r} has an unknown kind: it must be SIMPLE or TIMESTAMP",
            field=declared,
        ) from error


def _merger_of_payload(table: TableOptions, merging: MergingOptions) -> tuple[TableOptions, MergingOptions]:
    """Move a merger that is named as the payload class to the options of mergers.

    Raises:
        ConfigError: the options of mergers name another one.
    """
    if table.payload is None or table.payload in PAYLOAD_RULES:
        return table, merging
    if merging.mergers not in ((), (table.payload,)):
        raise ConfigError(
            "options contradict each other: hoodie.datasource.write.payload.class names the merger "
            f"{table.payload}, {MERGERS_KEY} {','.join(merging.mergers)}: name one",
            keys=("hoodie.datasource.write.payload.class", MERGERS_KEY),
        )
    return replace(table, payload=None), replace(merging, mergers=(table.payload,))


def check_combination(config: WriteConfig) -> None:
    """Check that the options do not contradict each other.

    Raises:
        ConfigError: they do; the error lists all contradictions.
    """
    problems = [
        *_operation_problems(config),
        *_key_generator_problems(config),
        *_merge_problems(config),
        *_version_problems(config),
        *_compaction_problems(config.compaction),
        *_archiving_problems(config.archiving),
        *bucket_problems(config.buckets),
        *clustering_problems(config.clustering),
        *marker_problems(config.markers),
        *lock_problems(config.locks),
        *hook_problems(config.callbacks, config.validators),
    ]
    if config.index.index_type is IndexType.HBASE and config.index.store is None and config.index.index_class is None:
        problems.append(
            "hoodie.index.type=HBASE needs the store that keeps the keys: set hoodie.index.hbase.store, or "
            "hoodie.index.class for a store of your own; HBase is reached by its Thrift server, "
            "thrift://host:port/table"
        )
    if (
        config.index.index_type is IndexType.HBASE
        and config.index.hbase_table is not None
        and config.index.index_class is None
        and not (config.index.store or "thrift://").startswith("thrift://")
    ):
        problems.append(
            "hoodie.index.hbase.table is a table of HBase, so hoodie.index.hbase.store must be thrift://host:port/table"
        )
    if config.metadata_table.enabled is False and config.record_index.enabled:
        problems.append(
            "a record index is in the metadata table, so it cannot be built with hoodie.metadata.enable=false"
        )
    if config.index.index_type.uses_bloom_filters and not config.bloom.enabled:
        problems.append(
            f"the {config.index.index_type.value} index needs bloom filters: set "
            "hoodie.parquet.bloom.filter.enabled=true, or hoodie.index.type=SIMPLE"
        )
    if problems:
        raise ConfigError("options contradict each other: " + "; ".join(problems))


def _operation_problems(config: WriteConfig) -> list[str]:
    problems = []
    operation, what = config.operation, config.what
    if what.partitions_to_delete and operation is not WriteOperation.DELETE_PARTITION:
        problems.append(
            "hoodie.datasource.write.partitions.to.delete goes with the operation delete_partition, not "
            f"with {operation.value}"
        )
    if what.overwrite_mode is OverwriteMode.DYNAMIC and operation is WriteOperation.INSERT_OVERWRITE_TABLE:
        problems.append(
            "hoodie.datasource.overwrite.mode=DYNAMIC keeps partitions that insert_overwrite_table "
            "replaces: use insert_overwrite"
        )
    if config.input.insert_drop_duplicates and config.input.insert_duplicate_policy is DuplicatePolicy.FAIL:
        problems.append(
            "hoodie.datasource.write.insert.drop.duplicates=true drops what "
            "hoodie.datasource.insert.dup.policy=fail refuses"
        )
    return problems


def _key_generator_problems(config: WriteConfig) -> list[str]:
    table, kind = config.table, config.key_generator_type
    problems = []
    if None not in (table.key_generator_type, table.key_generator_class) and (
        table.key_generator_type is not table.key_generator_class
    ):
        problems.append(
            "hoodie.datasource.write.keygenerator.type and hoodie.datasource.write.keygenerator.class name"
            " different ones"
        )
    fields = table.partition_fields
    if fields is None:
        return problems
    kinds = [split_partition_field(declared)[1] for declared in fields]
    count = len(fields)
    if kind is KeyGeneratorType.NON_PARTITION and count:
        problems.append("a NON_PARTITION key generator takes no partition fields")
    if kind in {KeyGeneratorType.SIMPLE, KeyGeneratorType.TIMESTAMP} and count != 1:
        problems.append(f"a {kind.value} key generator takes one partition field, not {count}")
    if kind in {KeyGeneratorType.SIMPLE, KeyGeneratorType.TIMESTAMP} and len(table.record_key_fields or ()) > 1:
        problems.append(f"a {kind.value} key generator takes one record key field: use COMPLEX or CUSTOM")
    if kind is KeyGeneratorType.CUSTOM and None in kinds:
        problems.append("a CUSTOM key generator needs `column:SIMPLE` or `column:TIMESTAMP` for each partition field")
    if kind not in {None, KeyGeneratorType.CUSTOM} and any(kinds):
        problems.append("partition fields of the form `column:KIND` need the CUSTOM key generator")
    return problems


def _merge_problems(config: WriteConfig) -> list[str]:
    table, mergers = config.table, config.merging.mergers
    named = {
        "hoodie.record.merge.mode": table.merge_mode,
        "hoodie.write.record.merge.strategy.id": table.merge_strategy,
        "hoodie.datasource.write.payload.class": rule_of_payload(table.payload).merge_mode if table.payload else None,
        MERGERS_KEY: MergeMode.CUSTOM if mergers else None,
    }
    given = {key: mode for key, mode in named.items() if mode is not None}
    if table.payload is not None and not mergers:
        # Hudi 1.0 names the mode CUSTOM for most payload classes; the class decides.
        given = {key: mode for key, mode in given.items() if mode is not MergeMode.CUSTOM}
    problems = []
    if len(set(given.values())) > 1:
        listed = ", ".join(f"{key} means {mode.value}" for key, mode in given.items())
        problems.append(f"they name different merge modes: {listed}")
    if (table.delete_field is None) is not (table.delete_marker is None):
        problems.append("hoodie.payload.delete.field and hoodie.payload.delete.marker go together")
    if config.merging.merger_options is not None and not mergers:
        problems.append(f"{MERGER_OPTIONS_KEY} needs a merger: set {MERGERS_KEY}")
    return problems


def _compaction_problems(compaction: CompactionOptions) -> list[str]:
    problems = []
    if compaction.inline and compaction.schedule_inline:
        problems.append(
            "hoodie.compact.inline=true runs the compaction that hoodie.compact.schedule.inline=true leaves to others"
        )
    if CompactionStrategy.PARTITION_REGEX in compaction.strategies and compaction.partition_regex is None:
        problems.append(f"{CompactionStrategy.PARTITION_REGEX.value} needs hoodie.compaction.partition.path.regex")
    return problems


def _archiving_problems(archiving: ArchivingOptions) -> list[str]:
    if archiving.min_commits < archiving.max_commits:
        return []
    return [
        f"hoodie.keep.min.commits={archiving.min_commits} must be below hoodie.keep.max.commits={archiving.max_commits}"
    ]


def _version_problems(config: WriteConfig) -> list[str]:
    ordering = config.table.ordering_fields or ()
    version = config.table.version
    if version is not None and not version.has_several_ordering_fields and len(ordering) > 1:
        return [f"a table of version {version} takes one ordering field, not {len(ordering)}"]
    return []


def _extra_metadata(options: Mapping[str, Any], prefix: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (key, text_of(value)) for key, value in options.items() if key.startswith(prefix) and value is not None
    )
