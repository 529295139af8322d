"""Path checks for values of users, for metadata of other writers, and for requests to stores.

A table may come from an untrusted writer, and paths in it decide which files are opened, listed and deleted. So every
path is checked here before use: it must stay below the folder that it is relative to, on every store and operating
system, and data must not be in the table's metadata folder.

Paths are neither decoded nor repaired: `%2e%2e` is a folder of that name, as in Hadoop.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from pyhudi.errors import UnsafePathError

METADATA_FOLDER: Final = ".hoodie"
"""The metadata folder, relative to the table."""

# S3 cannot list control characters, because XML cannot express them. A backslash is a separator on some systems. Half a
# surrogate pair has no UTF-8 form.
_FORBIDDEN: Final = re.compile(r"[\x00-\x1f\x7f\\\ud800-\udfff]")


def path_problem(path: str) -> str | None:
    """Explain why a relative path could leave its folder, or return None.

    The text completes the sentence "the path …". The empty path is the folder itself and is legal.
    """
    if not path:
        return None
    if _FORBIDDEN.search(path):
        return "holds a backslash or a control character, or is not valid Unicode"
    parts = path.split("/")
    if "" in parts:
        return "starts or ends with '/', or has an empty folder name in it"
    if "." in parts or ".." in parts:
        return "is a step to another folder ('.' or '..')"
    return None


def data_path_problem(path: str) -> str | None:
    """Like `path_problem`, for a data file or a partition, which must not be in the metadata folder either."""
    problem = path_problem(path)
    if problem is None and any(map(is_metadata_folder, path.split("/"))):
        return f"leads into {METADATA_FOLDER!r}, the table's metadata"
    return problem


def name_problem(name: str) -> str | None:
    """Explain why a text is not a file name, or return None. The text completes the sentence "the name …"."""
    if not name:
        return "is empty"
    return "has folders in it" if "/" in name else path_problem(name)


def is_metadata_folder(name: str) -> bool:
    """Whether a file system could treat this name as that of the metadata folder.

    File systems of macOS and Windows ignore letter case, and some ignore invisible characters.
    """
    if name.isascii():
        return name.lower() == METADATA_FOLDER
    seen = "".join(char for char in name if unicodedata.category(char) != "Cf")
    return unicodedata.normalize("NFKC", seen).casefold() == METADATA_FOLDER


def check_data_path(path: str, *, source: str) -> str:
    """Check the path of a data file or partition in metadata, and return it. A partition path may be empty.

    Args:
        path: The path, relative to the table.
        source: The file that names it, for the error.

    Raises:
        UnsafePathError: the path must not be opened, listed or deleted.
    """
    problem = data_path_problem(path)
    if problem is not None:
        raise UnsafePathError(
            f"a path in the table's metadata {problem}; nothing was done with it", path=source, named=path
        )
    return path


def check_file_name(name: str, *, source: str) -> str:
    """Check a name in metadata (of a file, a file group or an instant), or part of one, and return it.

    Raises:
        UnsafePathError: the text is a path or empty.
    """
    problem = name_problem(name)
    if problem is not None:
        raise UnsafePathError(
            f"a name in the table's metadata {problem}; nothing was done with it", path=source, named=name
        )
    return name
