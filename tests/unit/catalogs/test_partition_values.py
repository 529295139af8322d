"""Values of partition columns from the paths of partitions."""

from __future__ import annotations

import pytest

from pyhudi.catalogs.entries import values_of_path
from pyhudi.config.options_catalogs import Extractor
from pyhudi.errors import ConfigError


@pytest.mark.parametrize(
    ("path", "fields", "extractor", "hive_style", "expected"),
    [
        ("oslo", ["city"], None, False, ("oslo",)),
        ("city=oslo", ["city"], None, True, ("oslo",)),
        ("a=b", ["city"], None, False, ("a=b",)),
        ("city=a=b", ["city"], None, True, ("a=b",)),
        ('city=it\'s "x"', ["city"], None, True, ('it\'s "x"',)),
        ("oslo/2024", ["city", "year"], None, False, ("oslo", "2024")),
        ("city=oslo/year=2024", ["city", "year"], Extractor.MULTI_PART, False, ("oslo", "2024")),
        ("2024/01/31", ["day"], None, False, ("2024/01/31",)),
        ("2024/01/31", ["day"], Extractor.SINGLE_PART, False, ("2024/01/31",)),
        ("2024/1/31", ["day"], Extractor.SLASH_DAY, False, ("2024-01-31",)),
        ("y=2024/m=1/d=31/h=7", ["hour"], Extractor.SLASH_HOUR, True, ("2024-01-31-07",)),
        ("day=2024-01-31", ["day"], Extractor.HIVE_STYLE, True, ("2024-01-31",)),
        ("x", [], Extractor.NONE, False, ()),
    ],
)
def test_path_of_a_partition_has_the_values_that_the_extractor_takes(
    path: str, fields: list[str], extractor: Extractor | None, hive_style: bool, expected: tuple[str, ...]
) -> None:
    assert values_of_path(path, fields, extractor=extractor, hive_style=hive_style, decodes=False) == expected


def test_encoded_values_are_decoded_if_asked() -> None:
    given = ("city=a%2Fb", ["city"])
    assert values_of_path(*given, extractor=None, hive_style=True, decodes=False) == ("a%2Fb",)
    assert values_of_path(*given, extractor=None, hive_style=True, decodes=True) == ("a/b",)


@pytest.mark.parametrize(
    ("path", "fields", "extractor", "match"),
    [
        ("a/b", ["x", "y", "z"], None, "2 values for 3"),
        ("2024/31", ["day"], Extractor.SLASH_DAY, "yyyy/mm/dd"),
        ("2024/a/31", ["day"], Extractor.SLASH_DAY, "yyyy/mm/dd"),
        ("2024/01/31", ["day"], Extractor.SLASH_HOUR, "yyyy/mm/dd/HH"),
        ("oslo", ["city"], Extractor.HIVE_STYLE, "name=value"),
        ("oslo", ["city"], Extractor.NONE, "0 values for 1"),
    ],
)
def test_path_of_another_form_is_refused(path: str, fields: list[str], extractor: Extractor | None, match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        values_of_path(path, fields, extractor=extractor, hive_style=False, decodes=False)
