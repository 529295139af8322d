"""The pages of benchmarks: the parts that commands write."""

from __future__ import annotations

from pathlib import Path

from contestants import REPOSITORY

DOCS = REPOSITORY / "docs"
PAGE = DOCS / "benchmarks.md"


def put_on_page(command: str, text: str) -> None:
    """Put what a command has measured into `docs/benchmarks.md`, in the place of what it had written before."""
    put_on(PAGE, command, text)


def put_on(page: Path, command: str, text: str) -> None:
    """Put what a command has measured into a page, in the place of what it had written before."""
    begin, end = f"<!-- begin: written by `{command}` -->", "<!-- end -->"
    before, found, rest = page.read_text().partition(begin)
    _, _, after = rest.partition(end)
    assert found, f"{page} has no place for {command}"
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")
