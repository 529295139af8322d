"""Gather the pages of the repository for the documentation site: `python tools/site.py FOLDER`.

The site has the tree of the repository, so that the links of a page lead where they lead there. Gathered are all pages,
and every other file that one of them links to.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\(([^)\s#]+)")


def main(folder: Path) -> None:
    """Put the pages into a folder, which is emptied first."""
    shutil.rmtree(folder, ignore_errors=True)
    pages = [page for page in _kept(".md") if not page.parts[0].startswith((".", "changelog.d"))]
    files = {*pages, *(path for page in pages for path in _linked(page))}
    for path in sorted(files):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, folder / path)


def _kept(ending: str) -> list[Path]:
    """The files with this ending that git keeps or would keep, relative to the root."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", f"*{ending}"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    return [Path(name) for name in listed if (ROOT / name).is_file()]


def _linked(page: Path) -> set[Path]:
    """The files, other than pages, that a page links to."""
    text = _CODE.sub("", (ROOT / page).read_text(encoding="utf-8"))
    targets = {(ROOT / page).parent.joinpath(link).resolve() for link in _LINK.findall(text) if ":" not in link}
    return {target.relative_to(ROOT) for target in targets if target.is_file() and target.is_relative_to(ROOT)}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
