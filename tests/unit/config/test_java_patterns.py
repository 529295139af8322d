"""Regular expressions of Java in options: translated where Python says the same in other words, refused elsewhere."""

from __future__ import annotations

import pytest

from pyhudi.config.java_patterns import java_pattern
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import ConfigError

ALIKE = [
    # a pattern, a text that it matches, one that it does not
    (r"city=[a-z]+", "city=oslo", "city=Oslo"),
    (r"\p{Alpha}+", "oslo", "oslo1"),
    (r"\P{Digit}+", "oslo", "osl0"),
    (r"[\p{Upper}_]+=\p{XDigit}+", "A_B=0aF", "a=0"),
    (r"(?<year>\d{4})-\1", r"2024-2024", "2024-2025"),
    (r"(?:a|b)(?!c).", "ad", "ac"),
    (r"(?i)OSLO", "oslo", "rome"),
    (r"\w+", "oslo", "østby"),
    (r"[]x]+", "]x", "y"),
    (r"[^]x]+", "y", "]"),
    (r"a\[b\&&", "a[b&&", "ab"),
    (r"\(?<n>", "(<n>", "n"),
    (r"[\[a]", "[", "b"),
]
OTHERWISE = (
    *(
        "[a-z&&[^b]]",
        "[a[bc]]",
        "[a&&b]",
        r"\p{L}+",
        r"\p{IsGreek}",
        r"[\P{Alpha}]",
        r"\Qa.b\E",
        r"\h",
        r"\R",
        r"\x{1F600}",
    ),
    *(
        r"\boslo",
        r"\B",
        "{a}",
        "a{x}",
        "(?s)a",
        "a(?i)b",
        "(?P<n>a)",
        "(?#a)b",
        "(",
        "a{,2}",
        "[a--b]",
        r"\Z",
        r"\k<n>",
        "",
        "(?x) a",
    ),
)


@pytest.mark.parametrize(("pattern", "match", "other"), ALIKE)
def test_pattern_that_both_know_matches_what_java_matches(pattern: str, match: str, other: str) -> None:
    assert java_pattern(pattern).fullmatch(match)
    assert not java_pattern(pattern).fullmatch(other)


@pytest.mark.parametrize(
    "option",
    [
        "hoodie.bootstrap.mode.selector.regex",
        "hoodie.clean.partition.filter.regex",
        "hoodie.clustering.plan.strategy.partition.regex.pattern",
        "hoodie.compaction.partition.path.regex",
    ],
)
def test_pattern_that_java_reads_otherwise_is_refused_with_its_option(option: str) -> None:
    for pattern in OTHERWISE:
        with pytest.raises(ConfigError, match=r"regular expression") as refused:
            WriteConfig.from_options({option: pattern})
        assert option in str(refused.value), pattern
    for pattern, _, _ in ALIKE:
        WriteConfig.from_options({option: pattern})
