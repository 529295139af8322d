"""Values of partition columns, from the path of a partition, as the extractors of JVM Hudi take them."""

from __future__ import annotations

from collections.abc import Sequence

from pyhudi.config.options_catalogs import Extractor
from pyhudi.errors import ConfigError
from pyhudi.format.keys.partition_paths import unescape_value

_DAY_PARTS, _HOUR_PARTS = 3, 4


def values_of_path(
    path: str, fields: Sequence[str], *, extractor: Extractor | None, hive_style: bool, decodes: bool
) -> tuple[str, ...]:
    """The values of the partition columns of a partition.

    Raises:
        ConfigError: the path does not have the form that the extractor asks for, or another number of values.
    """
    values = _extracted(path, fields, extractor, hive_style=hive_style)
    if len(values) != len(fields):
        raise ConfigError(
            f"the path of a partition has {len(values)} values for {len(fields)} partition columns: name these in "
            "hoodie.datasource.hive_sync.partition_fields, or another "
            "hoodie.datasource.hive_sync.partition_extractor_class",
            partition_path=path,
            partition_columns=tuple(fields),
        )
    return tuple(map(unescape_value, values)) if decodes else values


def _extracted(path: str, fields: Sequence[str], extractor: Extractor | None, *, hive_style: bool) -> tuple[str, ...]:
    if extractor is Extractor.NONE:
        return ()
    parts = path.split("/")
    if extractor is Extractor.SINGLE_PART or (extractor is None and len(fields) == 1 and len(parts) > 1):
        return (path,)
    if extractor is Extractor.HIVE_STYLE:
        _, separator, value = path.partition("=")
        if not separator or "/" in path:
            raise ConfigError("the path of a partition is not in the form name=value", partition_path=path)
        return (value,)
    if extractor in {Extractor.SLASH_DAY, Extractor.SLASH_HOUR}:
        return (_date_of(path, parts, _DAY_PARTS if extractor is Extractor.SLASH_DAY else _HOUR_PARTS),)
    strips = hive_style or extractor is Extractor.MULTI_PART
    return tuple(part.partition("=")[2] if strips and "=" in part else part for part in parts)


def _date_of(path: str, parts: Sequence[str], count: int) -> str:
    """`2024-01-31`, or `2024-01-31-07`, of the parts `2024/1/31`, with names or without."""
    try:
        numbers = [int(part.rpartition("=")[2]) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) != count:
        form = "yyyy/mm/dd" if count == _DAY_PARTS else "yyyy/mm/dd/HH"
        raise ConfigError(f"the path of a partition is not in the form {form}", partition_path=path)
    return "-".join([f"{numbers[0]:04}", *(f"{number:02}" for number in numbers[1:])])
