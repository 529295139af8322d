"""Options of the bootstrap: its source, and which of its partitions are copied."""

# ruff: noqa: RUF009 - option() declares a field, as dataclasses.field does
from __future__ import annotations

import enum
from dataclasses import dataclass

from pyhudi.config.java_patterns import java_pattern
from pyhudi.config.option import option
from pyhudi.config.parsers import Parser, integer, regular_expression, text
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.keys.partition_paths import unescape_folder

_CLIENT = "org.apache.hudi.client.bootstrap"


class BootstrapMode(enum.Enum):
    """How the files of a partition come into the table."""

    METADATA_ONLY = "metadata_only"
    """They stay where they are; the table has skeleton files beside them."""
    FULL_RECORD = "full_record"
    """Their rows are copied into files of the table."""


class Selector(enum.Enum):
    """What chooses the mode of a partition."""

    METADATA_ONLY = f"{_CLIENT}.selector.MetadataOnlyBootstrapModeSelector"
    FULL_RECORD = f"{_CLIENT}.selector.FullRecordBootstrapModeSelector"
    REGEX = f"{_CLIENT}.selector.BootstrapRegexModeSelector"


def _selector(name: str) -> Selector:
    try:
        return Selector(name)
    except ValueError:
        raise UnsupportedFeatureError(
            "pyhudi runs no Java: give HudiTable.bootstrap a function of the partition path as its mode"
        ) from None


class Translator(enum.Enum):
    """How the path of a partition in the source becomes its path in the table."""

    IDENTITY = f"{_CLIENT}.translator.IdentityBootstrapPartitionPathTranslator"
    DECODED = f"{_CLIENT}.translator.DecodedBootstrapPartitionPathTranslator"


def _translator(name: str) -> Translator:
    try:
        return Translator(name)
    except ValueError:
        raise UnsupportedFeatureError(
            "pyhudi runs no Java: partitions have the paths that they have in the source, or these without escapes"
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapOptions:
    """Making a folder of Parquet files a table, for the operation bootstrap of the data source."""

    source: str | None = option(
        "hoodie.bootstrap.base.path",
        parse=text(),
        default=None,
        doc="The folder with the files that the operation bootstrap makes a table of.",
    )
    selector: Selector = option(
        "hoodie.bootstrap.mode.selector",
        parse=Parser(_selector, f"one of {', '.join(selector.value for selector in Selector)}"),
        default=Selector.METADATA_ONLY,
        doc="What chooses the mode of a partition: METADATA_ONLY leaves its files where they are, FULL_RECORD copies "
        "their rows, and the regular expression chooses by the path.",
    )
    regex: str = option(
        "hoodie.bootstrap.mode.selector.regex",
        parse=regular_expression(),
        default=".*",
        doc="The regular expression of that selector; it must match the whole path.",
    )
    regex_mode: BootstrapMode = option(
        "hoodie.bootstrap.mode.selector.regex.mode",
        default=BootstrapMode.METADATA_ONLY,
        doc="The mode of the partitions that the regular expression matches; all others have the other mode.",
    )
    translator: Translator = option(
        "hoodie.bootstrap.partitionpath.translator.class",
        parse=Parser(_translator, f"one of {', '.join(translator.value for translator in Translator)}"),
        default=Translator.IDENTITY,
        doc="How partition paths of the source become those of the table: they stay as they are, or, decoded, `%20` "
        "and other escapes in them become what they mean. They are decoded, too, where paths with escapes cannot be "
        "those of the table: folders of pandas, pyarrow and polars.",
    )

    parallelism: int = option(
        "hoodie.bootstrap.parallelism",
        parse=integer(minimum=0),
        default=0,
        doc="The number of tasks into which a bootstrap divides the files of its source, to write skeletons or to copy "
        "rows; 0: the engine decides. A file is not divided.",
    )

    def partition_path(self, source_path: str) -> str:
        """The partition path in the table of a folder of the source."""
        return source_path if self.translator is Translator.IDENTITY else unescape_folder(source_path)

    def mode_of(self, partition_path: str) -> BootstrapMode:
        """The mode of a partition."""
        if self.selector is not Selector.REGEX:
            return BootstrapMode[self.selector.name]
        if java_pattern(self.regex).fullmatch(partition_path):
            return self.regex_mode
        (other,) = (mode for mode in BootstrapMode if mode is not self.regex_mode)
        return other
