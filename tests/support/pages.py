"""The pages of the repository, and the Python blocks in them."""

from __future__ import annotations

import ast
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"(?:^<!-- (?P<note>[^\n]+) -->\n)?^```python\n(?P<code>.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of Python code, and the comment on the line above it: who runs it instead, or the file it stands for."""

    code: str
    note: str

    @property
    def tested_by(self) -> str | None:
        """The test that runs this block; None where the test of all pages does."""
        found = re.search(r"tested by (\S+)", self.note)
        return found.group(1) if found else None

    @property
    def file_name(self) -> str | None:
        """The module that a reader is to save this block as."""
        found = re.match(r"(\w+\.py)\b", self.note)
        return found.group(1) if found else None


def pages() -> list[Path]:
    """Every Markdown file of the repository but the fragments of the changelog, which move to another folder."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    return [ROOT / name for name in sorted(listed) if not name.startswith("changelog.d/") and (ROOT / name).exists()]


def name_of(page: Path) -> str:
    """The page's path in the repository."""
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[Block]:
    """The Python blocks of a page, in order."""
    return [Block(m["code"], m["note"] or "") for m in _BLOCK.finditer(page.read_text(encoding="utf-8"))]


def anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to the headings of a page."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found: set[str] = set()
    for title in re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title)
        slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        number = 0
        while (anchor := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(anchor)
    return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def run_block(block: Block, names: dict[str, Any], *, folder: Path) -> None:
    """Run a block's statements, and compare the values of those that say one, behind them or in the next line."""
    code = block.code.replace('"/tmp/', f'"{folder}/')
    lines = [*code.splitlines(), ""]
    for node in ast.parse(code).body:
        end = node.end_lineno or 1
        _, arrow, said = lines[end if lines[end].startswith("# → ") else end - 1].partition("# → ")
        if arrow and isinstance(node, ast.Expr):
            value = eval(compile(ast.Expression(node.value), "page", "eval"), names)
            assert value == eval(said, names), ast.unparse(node)
        else:
            exec(compile(ast.Module([node], []), "page", "exec"), names)
