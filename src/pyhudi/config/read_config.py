"""Options of one read, typed and checked: a state of the table, or the changes between two states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyhudi.config.enums import IncrementalFormat, QueryType
from pyhudi.config.option import read_group
from pyhudi.config.options_merging import MemoryOptions, MergingOptions
from pyhudi.config.options_metadata_table import MetadataTableOptions
from pyhudi.config.options_read import ReadOptions
from pyhudi.config.payloads import merger_of_payload
from pyhudi.config.refused_keys import Side
from pyhudi.config.registry import given_options
from pyhudi.errors import ConfigError

_QUERY_TYPE = "hoodie.datasource.query.type"
_FORMAT = "hoodie.datasource.query.incremental.format"
_BEGIN, _END = "hoodie.datasource.read.begin.instanttime", "hoodie.datasource.read.end.instanttime"
_PAYLOAD = "hoodie.datasource.write.payload.class"
EARLIEST = "000"
"""Less than every instant time: an incremental read after it returns all changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadConfig:
    """A checked read request. Times are as the user wrote them, in any of Hudi's three formats.

    Attributes:
        query_type: Snapshot, read-optimized or incremental.
        as_of: Time travel of a snapshot, read-optimized or not.
        is_savepoint: Whether `as_of` is the instant of a savepoint, whose state is that after its write was completed.
        begin: Start of an incremental read, exclusive.
        end: End of an incremental read, inclusive.
        change_data: Return every change of an incremental read, with the rows before and after it.
        fall_back_to_full_scan: Scan the whole table if files of the interval have been cleaned.
        skip_damaged_files: Leave out missing and damaged files, with a warning.
        data_skipping: Leave files out by the indexes of the metadata table.
        plain_partitions: Also read the folders whose Parquet files are not Hudi's.
        merging: The mergers that the table may name.
        memory: The memory limits of merging.
        metadata_table: Take the list of files from the metadata table; None from table version 8 on.
    """

    query_type: QueryType = QueryType.SNAPSHOT
    as_of: str | None = None
    is_savepoint: bool = False
    begin: str = EARLIEST
    end: str | None = None
    change_data: bool = False
    fall_back_to_full_scan: bool = False
    skip_damaged_files: bool = False
    data_skipping: bool = True
    plain_partitions: bool = False
    merging: MergingOptions = field(default_factory=MergingOptions)
    memory: MemoryOptions = field(default_factory=MemoryOptions)
    metadata_table: bool | None = None

    @staticmethod
    def from_options(options: Mapping[str, Any]) -> ReadConfig:
        """Parse options. Values may be text or Python values; None counts as not given.

        Warns (`OptionWarning`) about keys without effect.

        Raises:
            ConfigError: a value is illegal, or options contradict each other.
            UnsupportedFeatureError: an option asks for something that this release does not support.
        """
        texts = given_options(options, Side.READ)
        given = _with_query_type(read_group(ReadOptions, texts), texts)
        return replace(
            _incremental(given) if given.query_type is QueryType.INCREMENTAL else _of_moment(given),
            merging=_merging(texts),
            memory=read_group(MemoryOptions, texts),
            metadata_table=read_group(MetadataTableOptions, texts).enabled,
            fall_back_to_full_scan=given.fall_back_to_full_scan,
            skip_damaged_files=given.skip_damaged_files,
            data_skipping=given.data_skipping,
            plain_partitions=given.plain_partitions,
        )

    @staticmethod
    def of_stream(options: Mapping[str, Any]) -> ReadConfig:
        """Parse the options of a stream, which is incremental by nature and has no range.

        Raises:
            ConfigError: as `from_options`, or the options name a range or another type of query.
            UnsupportedFeatureError: as `from_options`.
        """

        def given(key: str) -> str:
            return str(options.get(key) or "").strip().lower()

        leave_out = _QUERY_TYPE if given(_QUERY_TYPE) == QueryType.INCREMENTAL.value else None
        config = None
        if not given(_BEGIN) and not given(_END):
            config = ReadConfig.from_options({name: text for name, text in options.items() if name != leave_out})
        if config is None or config.query_type is not QueryType.SNAPSHOT or config.as_of is not None:
            raise ConfigError(
                "a stream has no query type but incremental, no range and no time travel: say where it starts by"
                " the option startOffset"
            )
        return replace(config, change_data=given(_FORMAT) == IncrementalFormat.CHANGE_DATA.value)


def _with_query_type(given: ReadOptions, texts: Mapping[str, str]) -> ReadOptions:
    """The options with the query type that the older option names."""
    if given.as_read_optimized is None:
        return given
    kind = QueryType.READ_OPTIMIZED if given.as_read_optimized else QueryType.SNAPSHOT
    if "hoodie.datasource.query.type" in texts and given.query_type is not kind:
        raise ConfigError(
            "hoodie.query.as.ro.table and hoodie.datasource.query.type ask for different reads: give one of them",
            query_type=given.query_type.value,
        )
    return replace(given, query_type=kind)


def _merging(texts: Mapping[str, str]) -> MergingOptions:
    """The options of merging, and the merger of pyhudi that the options name as the payload class."""
    merging = read_group(MergingOptions, texts)
    merger = merger_of_payload(texts.get(_PAYLOAD, ""))
    return merging if merger is None else replace(merging, mergers=tuple(dict.fromkeys((*merging.mergers, merger))))


def _of_moment(given: ReadOptions) -> ReadConfig:
    if given.begin is not None or given.end is not None:
        raise ConfigError(
            "hoodie.datasource.read.begin.instanttime and hoodie.datasource.read.end.instanttime need "
            "hoodie.datasource.query.type=incremental; for the state at a time use as.of.instant",
            begin=given.begin,
            end=given.end,
        )
    return ReadConfig(query_type=given.query_type, as_of=given.as_of)


def _incremental(given: ReadOptions) -> ReadConfig:
    if given.as_of is not None:
        raise ConfigError(
            "as.of.instant does not go with hoodie.datasource.query.type=incremental: use "
            "hoodie.datasource.read.end.instanttime",
            as_of=given.as_of,
        )
    if given.begin is None:
        raise ConfigError(
            "an incremental read needs hoodie.datasource.read.begin.instanttime: an instant time, or `earliest`"
        )
    return ReadConfig(
        query_type=QueryType.INCREMENTAL,
        begin=begin_of(given.begin),
        end=given.end,
        change_data=given.incremental_format is IncrementalFormat.CHANGE_DATA,
    )


def begin_of(text: str) -> str:
    """The begin of a range as users write it: a time, or `earliest` (also `000`) for `EARLIEST`."""
    return EARLIEST if text.lower() == "earliest" or not text.strip("0") else text
