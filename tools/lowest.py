"""Print the lowest version of each dependency that `pyproject.toml` allows, as constraints for pip.

python tools/lowest.py > constraints.txt        `make test-lowest` installs by it
python tools/lowest.py tools > tools.txt        what the tests need besides, for any versions of the dependencies
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)(\[[\w,]+\])?>=(?P<lowest>[\w.]+)(,<[\w.]+)?")


def constraints(project: dict[str, object]) -> list[str]:
    """`name==lowest` for what users install: the dependencies and those of every extra.

    Raises:
        ValueError: a requirement has no lower bound.
    """
    section = project["project"]
    assert isinstance(section, dict)
    declared = [
        *section["dependencies"],
        *(one for extra in section["optional-dependencies"].values() for one in extra),
    ]
    found = {}
    for requirement in declared:
        parsed = _REQUIREMENT.fullmatch(requirement)
        if parsed is None:
            raise ValueError(f"a dependency is written NAME>=LOWEST or NAME>=LOWEST,<BROKEN: {requirement!r} is not")
        found[parsed["name"]] = parsed["lowest"]
    return [f"{name}=={lowest}" for name, lowest in sorted(found.items())]


def tools(project: dict[str, object]) -> list[str]:
    """The group `test`, without versions of what users choose, and of what goes with the version of such a package."""
    groups = project["dependency-groups"]
    assert isinstance(groups, dict)
    free = {line.partition("==")[0] for line in constraints(project)} | {"opentelemetry-sdk"}
    return [name if (name := one.partition("==")[0]) in free else one for one in groups["test"]]


if __name__ == "__main__":
    found = (tools if sys.argv[1:] == ["tools"] else constraints)(tomllib.loads(PROJECT.read_text()))
    sys.stdout.write("\n".join(found) + "\n")
