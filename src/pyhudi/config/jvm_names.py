"""Names that the JVM gives to key generators and merge strategies, and what they mean here.

Source: `format/timeline.md` 3.4, `format/logs-and-indexes.md` 1.5. Only known names mean something:
pyhudi never loads a class that a table or an option names.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyhudi.config.enums import KeyGeneratorType, MergeMode
from pyhudi.config.option import Parser
from pyhudi.errors import UnsupportedFeatureError

TABLE_VERSIONS = (6, 8, 9)
NEWEST_TABLE_VERSION = 9

_KEYGEN_PACKAGE = "org.apache.hudi.keygen."

KEY_GENERATOR_CLASS_NAMES: Mapping[KeyGeneratorType, str] = {
    KeyGeneratorType.SIMPLE: f"{_KEYGEN_PACKAGE}SimpleKeyGenerator",
    KeyGeneratorType.COMPLEX: f"{_KEYGEN_PACKAGE}ComplexKeyGenerator",
    KeyGeneratorType.NON_PARTITION: f"{_KEYGEN_PACKAGE}NonpartitionedKeyGenerator",
    KeyGeneratorType.TIMESTAMP: f"{_KEYGEN_PACKAGE}TimestampBasedKeyGenerator",
    KeyGeneratorType.CUSTOM: f"{_KEYGEN_PACKAGE}CustomKeyGenerator",
}
"""The class that version 6 stores for each type."""

_TYPE_OF_CLASS: Mapping[str, KeyGeneratorType] = {
    **{name: kind for kind, name in KEY_GENERATOR_CLASS_NAMES.items()},
    f"{_KEYGEN_PACKAGE}SimpleAvroKeyGenerator": KeyGeneratorType.SIMPLE,
    f"{_KEYGEN_PACKAGE}ComplexAvroKeyGenerator": KeyGeneratorType.COMPLEX,
    f"{_KEYGEN_PACKAGE}NonpartitionedAvroKeyGenerator": KeyGeneratorType.NON_PARTITION,
    f"{_KEYGEN_PACKAGE}TimestampBasedAvroKeyGenerator": KeyGeneratorType.TIMESTAMP,
    f"{_KEYGEN_PACKAGE}CustomAvroKeyGenerator": KeyGeneratorType.CUSTOM,
    f"{_KEYGEN_PACKAGE}GlobalDeleteKeyGenerator": KeyGeneratorType.GLOBAL_DELETE,
    f"{_KEYGEN_PACKAGE}GlobalAvroDeleteKeyGenerator": KeyGeneratorType.GLOBAL_DELETE,
}

MERGE_STRATEGY_IDS: Mapping[MergeMode, str] = {
    MergeMode.COMMIT_TIME_ORDERING: "ce9acb64-bde0-424c-9b91-f6ebba25356d",
    MergeMode.EVENT_TIME_ORDERING: "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    MergeMode.CUSTOM: "1897ef5f-18bc-4557-939c-9d6a8afd1519",
}
PAYLOAD_STRATEGY_ID = "00000000-0000-0000-0000-000000000000"
"""The payload class says how records merge."""


def key_generator_of_class(name: str) -> KeyGeneratorType:
    """The type that a class of the JVM implements; USER_PROVIDED for one that we do not know."""
    return _TYPE_OF_CLASS.get(name, KeyGeneratorType.USER_PROVIDED)


def key_generator_of_type(name: str) -> KeyGeneratorType:
    """The type by its name in a table's properties; USER_PROVIDED for one that we do not know."""
    try:
        return KeyGeneratorType(name.upper().removesuffix("_AVRO"))
    except ValueError:
        return KeyGeneratorType.USER_PROVIDED


def merge_mode_of_strategy(strategy_id: str) -> MergeMode:
    """The mode that a merge strategy's UUID stands for; CUSTOM for all that we do not know."""
    return next((mode for mode, known in MERGE_STRATEGY_IDS.items() if known == strategy_id), MergeMode.CUSTOM)


def _read_key_generator_class(name: str) -> KeyGeneratorType:
    kind = key_generator_of_class(name if "." in name else _KEYGEN_PACKAGE + name)
    if kind not in KEY_GENERATOR_CLASS_NAMES:
        raise UnsupportedFeatureError(f"the key generator {name} is not supported by this release")
    return kind


def _read_merge_strategy(strategy_id: str) -> MergeMode:
    mode = merge_mode_of_strategy(strategy_id)
    if mode is MergeMode.CUSTOM and strategy_id not in {MERGE_STRATEGY_IDS[mode], PAYLOAD_STRATEGY_ID}:
        raise UnsupportedFeatureError(f"the merge strategy {strategy_id} is not supported by this release")
    return mode


def _read_table_version(text: str) -> int:
    version = int(text)
    if version not in TABLE_VERSIONS:
        raise ValueError(text)
    return version


def _read_base_file_format(name: str) -> str:
    if name.upper() != "PARQUET":
        raise UnsupportedFeatureError(f"data files in the format {name} are not supported by this release")
    return "PARQUET"


KEY_GENERATOR_CLASS = Parser(
    _read_key_generator_class,
    "one of " + ", ".join(name.rpartition(".")[2] for name in KEY_GENERATOR_CLASS_NAMES.values()),
)
MERGE_STRATEGY = Parser(
    _read_merge_strategy, "one of " + ", ".join([*MERGE_STRATEGY_IDS.values(), PAYLOAD_STRATEGY_ID])
)
TABLE_VERSION = Parser(_read_table_version, "6, 8 or 9")
BASE_FILE_FORMAT = Parser(_read_base_file_format, "PARQUET")
