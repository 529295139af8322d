"""Print the lowest version of each dependency that `pyproject.toml` allows, as constraints for pip.

python tools/lowest.py > constraints.txt        `make test-lowest` installs by it
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


if __name__ == "__main__":
    sys.stdout.write("\n".join(constraints(tomllib.loads(PROJECT.read_text()))) + "\n")
