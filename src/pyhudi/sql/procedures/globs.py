"""Patterns of paths as Hadoop has them: `*` and `?` within one folder, `[abc]`, `[^abc]` and `{a,b}`."""

from __future__ import annotations

import re

from pyhudi.errors import ConfigError


def glob_pattern(glob: str) -> re.Pattern[str]:
    """What matches a whole path. Raises `ConfigError` for a pattern with a bracket or a brace that is not closed."""
    pieces: list[str] = []
    at, braces = 0, 0
    while at < len(glob):
        sign = glob[at]
        at += 1
        if sign in "*?":
            pieces.append("[^/]*" if sign == "*" else "[^/]")
        elif sign == "[":
            end = glob.find("]", at + 1)
            if end < 0:
                raise ConfigError("a bracket of the pattern is not closed", pattern=glob)
            inner = glob[at:end].replace("\\", "\\\\").replace("[", "\\[")
            pieces.append(f"[^{inner[1:]}]" if inner[0] in "^!" else f"[{inner}]")
            at = end + 1
        elif sign == "{":
            braces += 1
            pieces.append("(?:")
        elif sign == "}" and braces:
            braces -= 1
            pieces.append(")")
        elif sign == "," and braces:
            pieces.append("|")
        elif sign == "\\" and at < len(glob):
            pieces.append(re.escape(glob[at]))
            at += 1
        else:
            pieces.append(re.escape(sign))
    if braces:
        raise ConfigError("a brace of the pattern is not closed", pattern=glob)
    try:
        return re.compile("".join(pieces))
    except re.error as error:
        raise ConfigError("this is no pattern of paths", pattern=glob) from error
