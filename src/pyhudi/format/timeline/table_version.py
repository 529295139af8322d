"""Table versions: everything in the format that differs between them, as one value.

Code asks the value for the fact that it needs, and never compares version numbers.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from pyhudi.errors import UnsafePathError, UnsupportedFeatureError
from pyhudi.format.safe_paths import METADATA_FOLDER, path_problem


class MetadataEncoding(enum.Enum):
    """How the bodies of commits, delta commits and replace commits are written; all other bodies are Avro."""

    JSON = "json"
    AVRO = "avro"


class MergeRuleSource(enum.Enum):
    """Which table properties say how versions of a record merge."""

    PAYLOAD_CLASS = "payload class"
    """A payload class alone; without one, the latest commit wins."""
    MODE_OR_PAYLOAD_CLASS = "mode or payload class"
    """A merge mode, or a payload class where the strategy id says that the class merges."""
    MODE = "mode"
    """A merge mode with merge properties. A payload class is kept for older readers only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVersion:
    """One table version. The folders are relative to the table.

    Attributes:
        number: The value of `hoodie.table.version`. For storing, comparing for equality and showing only.
        layout_version: The value of `hoodie.timeline.layout.version`.
        timeline_folder: The folder of the instant files.
        history_folder: The folder of the archived timeline.
        history_property: The table property that names the history folder.
        has_completion_times: Completed instants carry their completion time in the file name.
        has_clustering_action: A pending clustering has the action `clustering`, instead of `replacecommit`.
        has_several_ordering_fields: A table may have several ordering fields. A delete in a log then carries an array
            of their values.
        has_date_wrappers: A delete in a log carries a date as a date. In other versions it is the number of days since
            1970; JVM Hudi fails on logs that differ.
        has_generator_types: The table stores its key generator's type, and the kinds of its partition fields. Before,
            it stores the generator's class, and of a CUSTOM generator the names of the fields only.
        names_single_key_field: COMPLEX keys of one field carry the field's name (`id:k1`). Before, both forms exist.
        has_partition_extractor: The table stores the class with which catalog sync takes partition paths apart.
        orders_null_as_zero: A null ordering value compares as zero of its type. Before, it compares as missing.
        compares_all_deletes: A delete in a log compares with rows by ordering values of every type. Before, only some
            types compare (`merge.log_merge`).
        has_secondary_indexes: Records of the metadata table can be of secondary indexes and of partitions' statistics,
            and say whether bounds are tight.
        has_value_types: Column statistics in the metadata table say the type of their values.
        merge_rule: Which properties say how versions of a record merge.
        ordering_property: The table property with the ordering fields.
        metadata_encoding: How commit metadata is written.
        new_table_properties: Properties that every new table of the version gets.
    """

    number: int
    layout_version: int
    timeline_folder: str
    history_folder: str
    history_property: str
    has_completion_times: bool
    has_clustering_action: bool
    has_several_ordering_fields: bool
    has_date_wrappers: bool
    has_generator_types: bool
    names_single_key_field: bool
    has_partition_extractor: bool
    orders_null_as_zero: bool
    compares_all_deletes: bool
    has_secondary_indexes: bool
    has_value_types: bool
    merge_rule: MergeRuleSource
    ordering_property: str
    metadata_encoding: MetadataEncoding
    new_table_properties: Mapping[str, str] = field(repr=False, hash=False)

    def __str__(self) -> str:
        return str(self.number)

    def __hash__(self) -> int:
        return hash((self.number, self.timeline_folder))  # caches of names ask it for each name of a timeline

    def in_folders(self, timeline: str, history: str) -> TableVersion:
        """The version for a table whose properties name these folders.

        In versions with completion times the history lies in the folder of the timeline; before, the timeline lies in
        `.hoodie` itself, whatever a property says.

        Raises:
            UnsafePathError: a folder lies outside of `.hoodie`.
        """
        for name in (timeline, history):
            if (problem := path_problem(name)) is not None:
                raise UnsafePathError(f"the folder {name!r} of the timeline {problem}", folder=name)
        folder = f"{METADATA_FOLDER}/{timeline}" if self.has_completion_times else METADATA_FOLDER
        return replace(self, timeline_folder=folder, history_folder=f"{folder}/{history}")


V6: Final = TableVersion(
    number=6,
    layout_version=1,
    timeline_folder=".hoodie",
    history_folder=".hoodie/archived",
    history_property="hoodie.archivelog.folder",
    has_completion_times=False,
    has_clustering_action=False,
    has_several_ordering_fields=False,
    has_date_wrappers=True,
    has_generator_types=False,
    names_single_key_field=False,
    has_partition_extractor=False,
    orders_null_as_zero=False,
    compares_all_deletes=False,
    has_secondary_indexes=False,
    has_value_types=False,
    merge_rule=MergeRuleSource.PAYLOAD_CLASS,
    ordering_property="hoodie.table.precombine.field",
    metadata_encoding=MetadataEncoding.JSON,
    new_table_properties={"hoodie.archivelog.folder": "archived", "hoodie.database.name": ""},
)
"""Written by Hudi 0.14 and 0.15."""

V8: Final = TableVersion(
    number=8,
    layout_version=2,
    timeline_folder=".hoodie/timeline",
    history_folder=".hoodie/timeline/history",
    history_property="hoodie.timeline.history.path",
    has_completion_times=True,
    has_clustering_action=True,
    has_several_ordering_fields=False,
    has_date_wrappers=False,
    has_generator_types=True,
    names_single_key_field=False,
    has_partition_extractor=False,
    orders_null_as_zero=True,
    compares_all_deletes=False,
    has_secondary_indexes=True,
    has_value_types=False,
    merge_rule=MergeRuleSource.MODE_OR_PAYLOAD_CLASS,
    ordering_property="hoodie.table.precombine.field",
    metadata_encoding=MetadataEncoding.AVRO,
    new_table_properties={
        "hoodie.table.initial.version": "8",
        "hoodie.timeline.path": "timeline",
        "hoodie.timeline.history.path": "history",
        "hoodie.archivelog.folder": "history",
        "hoodie.table.multiple.base.file.formats.enable": "false",
    },
)
"""Written by Hudi 1.0."""

V9: Final = replace(
    V8,
    number=9,
    has_several_ordering_fields=True,
    names_single_key_field=True,
    has_partition_extractor=True,
    compares_all_deletes=True,
    has_value_types=True,
    merge_rule=MergeRuleSource.MODE,
    ordering_property="hoodie.table.ordering.fields",
    new_table_properties={
        **V8.new_table_properties,
        "hoodie.table.initial.version": "9",
        "hoodie.table.format": "native",
    },
)
"""Written by Hudi 1.1 and 1.2."""

NEWEST: Final = V9
"""The version of new tables, unless the user asks for another."""

TABLE_VERSIONS: Final[Mapping[int, TableVersion]] = {version.number: version for version in (V6, V8, V9)}


def table_version(number: int) -> TableVersion:
    """The version that `hoodie.table.version` names.

    Raises:
        UnsupportedFeatureError: it is none of 6, 8 and 9.
    """
    version = TABLE_VERSIONS.get(number)
    if version is None:
        advice = "install a newer release of pyhudi" if number > NEWEST.number else "upgrade the table with JVM Hudi"
        raise UnsupportedFeatureError(
            f"tables of version {number} are not supported, only 6, 8 and 9: {advice}", table_version=number
        )
    return version
