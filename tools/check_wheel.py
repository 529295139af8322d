"""Look into a built wheel: it has the package, `py.typed`, licence and notice, and nothing else."""

from __future__ import annotations

import re
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
NEEDED = ("pyhudi/__init__.py", "pyhudi/py.typed", "pyhudi/sql/log4j2.properties")
LICENCES = ("LICENSE", "NOTICE")


def problems(names: list[str]) -> list[str]:
    """What is wrong with a wheel that holds files of these names."""
    source = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}
    missing = [name for name in (*NEEDED, *sorted(source)) if name not in names]
    missing += [one for one in LICENCES if not any(re.fullmatch(rf".*\.dist-info/licenses/{one}", n) for n in names)]
    foreign = [name for name in names if not re.match(r"pyhudi/|pyspark_\w+/|pyhudi-[^/]+\.dist-info/", name)]
    return [f"missing: {name}" for name in missing] + [f"does not belong there: {name}" for name in foreign]


def main(wheels: list[str]) -> int:
    """Print what is wrong with each wheel; 1 if anything is."""
    found = [f"{wheel}: {one}" for wheel in wheels for one in problems(zipfile.ZipFile(wheel).namelist())]
    print("\n".join(found) if found else f"{len(wheels)} wheel(s) are as they should be")
    return 1 if found or not wheels else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
