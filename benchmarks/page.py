"""The page of benchmarks, `docs/benchmarks.md`: the part that a command writes."""

from __future__ import annotations

from contestants import REPOSITORY

DOCS = REPOSITORY / "docs"
PAGE = DOCS / "benchmarks.md"


def put_on_page(command: str, text: str) -> None:
    """Put what a command has measured in the place of what it had written before."""
    begin, end = f"<!-- begin: written by `{command}` -->", "<!-- end -->"
    before, found, rest = PAGE.read_text().partition(begin)
    _, _, after = rest.partition(end)
    assert found, f"{PAGE} has no place for {command}"
    PAGE.write_text(f"{before}{begin}\n\n{text}\n\n{end}{after}")
