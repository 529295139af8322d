"""Types and classes of the built-in key generators.

https://github.com/apache/hudi/blob/master/hudi-common/src/main/java/org/apache/hudi/keygen/constant/KeyGeneratorType.java
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Final

KEY_GENERATOR_PACKAGE: Final = "org.apache.hudi.keygen."


class KeyGeneratorType(enum.Enum):
    """How record keys and partition paths come from a row's columns: the values of `hoodie.table.keygenerator.type`."""

    SIMPLE = "SIMPLE"
    COMPLEX = "COMPLEX"
    NON_PARTITION = "NON_PARTITION"
    TIMESTAMP = "TIMESTAMP"
    CUSTOM = "CUSTOM"
    GLOBAL_DELETE = "GLOBAL_DELETE"
    USER_PROVIDED = "USER_PROVIDED"
    """A custom class, or any class or type that this release does not know."""

    @property
    def is_partitioned(self) -> bool:
        """Whether rows of such a table may have a partition path."""
        return self not in {KeyGeneratorType.NON_PARTITION, KeyGeneratorType.GLOBAL_DELETE}


class PartitionFieldKind(enum.Enum):
    """How the value of a partition field becomes text: as it is, or as a time in an output pattern."""

    SIMPLE = "SIMPLE"
    TIMESTAMP = "TIMESTAMP"


KEY_GENERATOR_CLASSES: Final[Mapping[KeyGeneratorType, str]] = {
    KeyGeneratorType.SIMPLE: f"{KEY_GENERATOR_PACKAGE}SimpleKeyGenerator",
    KeyGeneratorType.COMPLEX: f"{KEY_GENERATOR_PACKAGE}ComplexKeyGenerator",
    KeyGeneratorType.NON_PARTITION: f"{KEY_GENERATOR_PACKAGE}NonpartitionedKeyGenerator",
    KeyGeneratorType.TIMESTAMP: f"{KEY_GENERATOR_PACKAGE}TimestampBasedKeyGenerator",
    KeyGeneratorType.CUSTOM: f"{KEY_GENERATOR_PACKAGE}CustomKeyGenerator",
    KeyGeneratorType.GLOBAL_DELETE: f"{KEY_GENERATOR_PACKAGE}GlobalDeleteKeyGenerator",
}
"""The class of JVM Hudi for each type but USER_PROVIDED. Table version 6 stores it in place of the type."""

_TYPE_OF_CLASS: Final[Mapping[str, KeyGeneratorType]] = {
    **{name: kind for kind, name in KEY_GENERATOR_CLASSES.items()},
    # The same generators for Avro records.
    **{name.replace("KeyGen", "AvroKeyGen"): kind for kind, name in KEY_GENERATOR_CLASSES.items()},
    f"{KEY_GENERATOR_PACKAGE}GlobalAvroDeleteKeyGenerator": KeyGeneratorType.GLOBAL_DELETE,
}


def key_generator_type(name: str) -> KeyGeneratorType:
    """The type for a type name (`SIMPLE`, `SIMPLE_AVRO`) or a class name, with or without its package.

    Generators that wrap another one (`SPARK_SQL`, `AUTO_RECORD`) are USER_PROVIDED: their names do not tell which.
    """
    if named := _TYPE_OF_CLASS.get(name if "." in name else KEY_GENERATOR_PACKAGE + name):
        return named
    return KeyGeneratorType.__members__.get(name.upper().removesuffix("_AVRO"), KeyGeneratorType.USER_PROVIDED)


def infer_key_generator(record_key_fields: Sequence[str], partition_fields: Sequence[str]) -> KeyGeneratorType:
    """The generator that JVM Hudi uses if none is named (`KeyGenUtils.inferKeyGeneratorType`).

    Partition fields may carry a kind (`ts:TIMESTAMP`), which makes it CUSTOM. Without partition fields it is
    NON_PARTITION for any number of key fields.
    """
    if not partition_fields:
        return KeyGeneratorType.NON_PARTITION
    if ":" in partition_fields[0]:
        return KeyGeneratorType.CUSTOM
    is_simple = len(partition_fields) == 1 and len(record_key_fields) <= 1
    return KeyGeneratorType.SIMPLE if is_simple else KeyGeneratorType.COMPLEX
