"""Some 2,000 texts that mean to be somewhere else, and a judge of where a text leads that is not the shipped one."""

from __future__ import annotations

import itertools
import posixpath
import unicodedata
from collections.abc import Iterator
from urllib.parse import unquote

CANARY = "canary"
"""A folder beside the table, which nothing may touch."""

_STEPS = (
    *("..", ".", "...", "..;", ".. ", " ..", "..\x00", "\x00..", "..\n", "..\t", "..\r"),
    *("%2e%2e", "%2E%2E", ".%2e", "%252e%252e", "%c0%ae%c0%ae", "%u002e%u002e", "&#46;&#46;", "\\u002e\\u002e"),
    # Characters that some system, or some normalisation, takes for dots; and dots with unseen ones among them.
    *(
        "\u2025",
        "\uff0e\uff0e",
        "\u2024\u2024",
        "\ufe52\ufe52",
        ".\u200b.",
        ".\u200d.",
        "\ufeff..",
        "..\u202e",
        ".\u0307.",
    ),
)
_SEPARATORS = (
    *("/", "//", "/./", "\\", "\\\\", "/\\", "%2f", "%2F", "%5c", "%252f", "\u2215", "\u2044", "\u29f8", "\uff0f"),
    *("\uff3c", "\u29f5", "\n/", "\x00/", ":", "/:", ";/"),
)
_TARGETS = (CANARY, f"{CANARY}/precious", "etc/passwd", ".hoodie", ".hoodie/timeline")
_ABSOLUTE = (
    *(
        "/",
        "//",
        "///",
        "/etc/passwd",
        f"/{CANARY}",
        "//host/share",
        "\\\\host\\share",
        "C:\\x",
        "C:/x",
        "c:x",
        "~",
        "~/x",
    ),
    *("file:///etc/passwd", "file:/etc/passwd", "file:etc", "s3://other/x", "s3a://other/x", "memory://other/x"),
    *(
        "abfss://c@a.dfs.core.windows.net/x",
        "http://host/x",
        "hdfs://nn/x",
        "\\??\\C:\\x",
        "/proc/self/environ",
        "/dev/zero",
    ),
)
_METADATA = (
    *(
        ".hoodie",
        ".hoodie/",
        ".hoodie/timeline",
        ".hoodie/metadata/files",
        ".hoodie/.temp/1",
        "./.hoodie",
        "a/../.hoodie",
    ),
    *(
        ".HOODIE",
        ".Hoodie/timeline",
        ".hoodie\x00",
        ".hoodie ",
        ".hoodie.",
        "\uff0ehoodie",
        ".hoo\u200cdie",
        ".hood\u0131e",
    ),
    *(
        "\u200b.hoodie",
        ".hoodie\ufeff",
        ".\u210coodie",
        ".ho\u200dodie/metadata",
        ".hoodie%2ftimeline",
        ".hoodie\\timeline",
    ),
    *(
        ".hoodie:x",
        ".hoodie::$INDEX_ALLOCATION",
        "a/.hoodie",
        "a/.hoodie/timeline",
        ".hoodie_x",
        ".hoodie_partition_metadata",
    ),
)
_SHELL = (
    "$HOME",
    "${HOME}",
    "$(id)",
    "`id`",
    ";id",
    "|id",
    "&& id",
    "*",
    "**",
    "?",
    "[a]",
    "{a,b}",
    "!",
    "#",
    "-rf",
    "--",
    "'",
    '"',
)
_NAMES = (
    "",
    " ",
    ".",
    "\x00",
    "\x7f",
    "\x1b[31m",
    "\ud800",
    "\udfff",
    "CON",
    "NUL",
    "aux.txt",
    "x" * 300,
    "\u202e",
    "a\x00b",
    "a\nb",
)
_PREFIXES = ("", "a/", "city=", "city=a/", "./", "a/b/")


def _steps() -> Iterator[str]:
    for step, separator in itertools.product(_STEPS, _SEPARATORS):
        for target in _TARGETS[:3]:
            yield f"{step}{separator}{target}"
        yield f"a{separator}{step}{separator}{step}{separator}{CANARY}"


def _all() -> Iterator[str]:
    yield from _steps()
    plain = (*_ABSOLUTE, *_METADATA, *_SHELL, *_NAMES, *(f"../{target}" for target in _TARGETS))
    for prefix, value in itertools.product(_PREFIXES, plain):
        yield prefix + value
    for depth in range(1, 40):
        yield "../" * depth + f"{CANARY}/precious"
        yield "a/" * depth + "../" * (depth + 1) + CANARY


CORPUS: tuple[str, ...] = tuple(dict.fromkeys(_all()))

NASTY: tuple[str, ...] = (
    *("..", f"../{CANARY}", f"../{CANARY}/precious", f"a/../../{CANARY}", f"/{CANARY}", "a//b", "a/./b", "a/", "."),
    *(f"..\\{CANARY}", "a\x00b", "a\nb", ".hoodie", ".hoodie/timeline", ".hoodie/metadata/files", ".HOODIE/timeline"),
    *("a/.hoodie", ".hoo\u200cdie/timeline", "\ud800", "file:///etc/passwd"),
)
"""What leads out of a table's data for certain, in each way that there is: for tests that cannot afford the corpus."""


def leads_out(path: str) -> bool:
    """Whether a path, relative to a table, could be somewhere else than below it on some system.

    Believes in no character: both slashes part names, dots are what any normalisation makes of them. Nothing is
    percent-decoded, because no store does that.
    """
    if path == "":
        return False
    if "\x00" in path or any(0xD800 <= ord(char) <= 0xDFFF for char in path):
        return True
    slashed = path.replace("\\", "/")
    normal = posixpath.normpath(posixpath.join("/base", slashed))
    return slashed.startswith("/") or not normal.startswith("/base/") or normal != f"/base/{slashed}"


def is_among_metadata(path: str) -> bool:
    """Whether a path is the metadata folder, or below one, on a system that cares little for how it is written."""
    return any(_folded(part) == ".hoodie" for part in path.replace("\\", "/").split("/"))


def _folded(name: str) -> str:
    unseen = "\u200b\u200c\u200d\u2060\ufeff\u202e"
    return unicodedata.normalize("NFKC", "".join(char for char in name if char not in unseen)).lower()


def is_decoded_elsewhere(path: str) -> bool:
    """Whether percent-decoding would make another path of it."""
    return unquote(path) != path
