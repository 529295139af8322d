"""Write docs/reference/procedures.md from the declared procedures; with --check, fail when the page is stale."""

from __future__ import annotations

import sys
from pathlib import Path

from pyhudi.sql.procedures.declared import Column, Parameter, Procedure
from pyhudi.sql.procedures.registry import FAMILIES, PROCEDURES

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "procedures.md"
HEAD = """\
# Procedures

Written by `tools/procedure_reference.py` from the declarations in `src/pyhudi/sql/procedures/`; `make docs` writes it
again. How they are called, with examples: [CALL](../procedures.md).

Names and types of arguments and columns are those of JVM Hudi 1.2. Arguments in bold must be given. Where there is an
argument `table`, `path => '…'` may be given instead.
"""


def render() -> str:
    """The page as Markdown."""
    parts = [HEAD, f"{len(PROCEDURES)} procedures:\n"]
    for title, procedures in FAMILIES.items():
        parts.append(f"## {title}\n")
        parts += [_described(one) for one in procedures]
    return "\n".join(parts)


def _described(one: Procedure) -> str:
    arguments = ", ".join(map(_argument, one.parameters)) or "none"
    answer = ", ".join(map(_column, one.columns))
    refusal = f"\n\nRefused: {one.refusal}." if one.refusal else ""
    return f"### `{one.name}`\n\n{one.what}{refusal}\n\n- Arguments: {arguments}\n- Columns: {answer}\n"


def _argument(one: Parameter) -> str:
    name = f"**`{one.name}`**" if one.required else f"`{one.name}`"
    default = str(one.default).lower() if isinstance(one.default, bool) else one.default
    return f"{name} {one.type.value}{f' = `{default}`' if default not in (None, '') else ''}"


def _column(one: Column) -> str:
    return f"`{one.name}` {one.type.value}"


def main(arguments: list[str]) -> int:
    """Write the page, or compare it; 1 when it is stale."""
    page = render()
    if "--check" in arguments:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page:
            return 0
        print(f"{PAGE.name} is stale: run `make docs`", file=sys.stderr)
        return 1
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
