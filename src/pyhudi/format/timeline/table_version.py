"""Table versions: everything in the format that differs between them, as one value.

Code asks the value for the fact that it needs, and never compares version numbers.

Source: `format/timeline.md`, quick orientation and 1.2.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Final

from pyhudi.errors import UnsafePathError, UnsupportedFeatureError
from pyhudi.format.safe_paths import METADATA_FOLDER, path_problem


class MetadataEncoding(enum.Enum):
    """How the bodies of commits, delta commits and replace commits are written; all other bodies are Avro."""

    JSON = "json"
    AVRO = "avro"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableVersion:
    """One table version. The folders are relative to the table.

    `has_completion_times`: completed instants carry their completion time in the file name.
    `has_clustering_action`: a pending clustering is called so, instead of `replacecommit`.
    `has_array_wrappers`: a delete in a log can carry the values of several ordering fields.
    `has_date_wrappers`: a delete in a log carries a date as one. Elsewhere it is the number of days since 1970: real
    Hudi fails at reading logs where it is not.
    """

    number: int
    layout_version: int
    timeline_folder: str
    history_folder: str
    has_completion_times: bool
    has_clustering_action: bool
    has_array_wrappers: bool
    has_date_wrappers: bool
    metadata_encoding: MetadataEncoding

    def in_folders(self, timeline: str, history: str) -> TableVersion:
        """The version for a table whose properties name these folders.

        In versions with completion times the history lies in the folder of the timeline; before, the timeline lies in
        `.hoodie` itself, whatever a property says. Raises `UnsafePathError` for a folder outside of `.hoodie`.
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
    has_completion_times=False,
    has_clustering_action=False,
    has_array_wrappers=False,
    has_date_wrappers=True,
    metadata_encoding=MetadataEncoding.JSON,
)
"""Written by Hudi 0.14 and 0.15."""

V8: Final = TableVersion(
    number=8,
    layout_version=2,
    timeline_folder=".hoodie/timeline",
    history_folder=".hoodie/timeline/history",
    has_completion_times=True,
    has_clustering_action=True,
    has_array_wrappers=False,
    has_date_wrappers=False,
    metadata_encoding=MetadataEncoding.AVRO,
)
"""Written by Hudi 1.0."""

V9: Final = TableVersion(
    number=9,
    layout_version=2,
    timeline_folder=".hoodie/timeline",
    history_folder=".hoodie/timeline/history",
    has_completion_times=True,
    has_clustering_action=True,
    has_array_wrappers=True,
    has_date_wrappers=False,
    metadata_encoding=MetadataEncoding.AVRO,
)
"""Written by Hudi 1.1 and 1.2."""

_VERSIONS: Final = {version.number: version for version in (V6, V8, V9)}


def table_version(number: int) -> TableVersion:
    """The version that `hoodie.table.version` names.

    Raises:
        UnsupportedFeatureError: it is none of 6, 8 and 9.
    """
    version = _VERSIONS.get(number)
    if version is None:
        raise UnsupportedFeatureError(
            "tables of this version cannot be used: only 6, 8 and 9 can; let Hudi itself up- or downgrade the table",
            table_version=number,
        )
    return version
