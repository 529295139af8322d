"""Names that JVM Hudi gives to key generators, merge strategies and table versions, as option parsers.

pyhudi knows these names only, and never loads a class that a table or an option names.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyhudi.config.enums import MergeMode
from pyhudi.config.parsers import Parser
from pyhudi.errors import UnsupportedFeatureError
from pyhudi.format.keys.generator_types import KEY_GENERATOR_CLASSES, KeyGeneratorType, key_generator_type
from pyhudi.format.timeline.table_version import TABLE_VERSIONS, TableVersion

KEY_GENERATORS_OF_WRITES = tuple(kind for kind in KEY_GENERATOR_CLASSES if kind is not KeyGeneratorType.GLOBAL_DELETE)
"""The key generators of the tables that pyhudi writes. A GLOBAL_DELETE generator can only delete."""
_KEY_GENERATORS = ", ".join(KEY_GENERATOR_CLASSES[kind].rpartition(".")[2] for kind in KEY_GENERATORS_OF_WRITES)

MERGE_STRATEGY_IDS: Mapping[MergeMode, str] = {
    MergeMode.COMMIT_TIME_ORDERING: "ce9acb64-bde0-424c-9b91-f6ebba25356d",
    MergeMode.EVENT_TIME_ORDERING: "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5",
    MergeMode.CUSTOM: "1897ef5f-18bc-4557-939c-9d6a8afd1519",
}
PAYLOAD_STRATEGY_ID = "00000000-0000-0000-0000-000000000000"
"""The strategy id of tables whose payload class merges."""


def merge_mode_of_strategy(strategy_id: str) -> MergeMode:
    """The mode for the UUID of a merge strategy; CUSTOM for unknown UUIDs."""
    return next((mode for mode, known in MERGE_STRATEGY_IDS.items() if known == strategy_id), MergeMode.CUSTOM)


def _read_key_generator_class(name: str) -> KeyGeneratorType:
    kind = key_generator_type(name)
    if kind not in KEY_GENERATORS_OF_WRITES:
        raise UnsupportedFeatureError(
            f"the key generator {name} is not supported by this release: use one of {_KEY_GENERATORS}"
        )
    return kind


def _read_merge_strategy(strategy_id: str) -> MergeMode:
    mode = merge_mode_of_strategy(strategy_id)
    if mode is MergeMode.CUSTOM and strategy_id not in {MERGE_STRATEGY_IDS[mode], PAYLOAD_STRATEGY_ID}:
        raise UnsupportedFeatureError(f"the merge strategy {strategy_id} is not supported by this release")
    return mode


def _read_table_version(text: str) -> TableVersion:
    version = TABLE_VERSIONS.get(int(text))
    if version is None:
        raise ValueError(text)
    return version


def _read_base_file_format(name: str) -> str:
    if name.upper() != "PARQUET":
        raise UnsupportedFeatureError(f"data files in the format {name} are not supported: leave out the option")
    return "PARQUET"


KEY_GENERATOR_CLASS = Parser(_read_key_generator_class, f"one of {_KEY_GENERATORS}")
MERGE_STRATEGY = Parser(
    _read_merge_strategy, "one of " + ", ".join([*MERGE_STRATEGY_IDS.values(), PAYLOAD_STRATEGY_ID])
)
TABLE_VERSION = Parser(_read_table_version, "6, 8 or 9")
BASE_FILE_FORMAT = Parser(_read_base_file_format, "PARQUET")
