"""Write docs/reference/options.md from the registry of options; with --check, fail when the page is stale."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

from pyhudi.config.jvm_keys import UNSUPPORTED
from pyhudi.config.option import Option, text_of
from pyhudi.config.registry import SECTIONS

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "options.md"
HEAD = """\
# Options

Written by `tools/option_reference.py` from the registry in `src/pyhudi/config/`; `make docs` writes it again.

Options go to `df.write.options(...)`, `spark.read.options(...)` and to every method of `HudiTable` that takes
`hudi_options`. Names are Hudi's own. Values are texts, or the Python values that they stand for. What a call does
not say of the table is taken from the table's own properties, and what contradicts them is refused.

A `hoodie.*` key that is unknown brings an `OptionWarning` with the nearest known one; so does a key of the last
section. `path` is the table's base path. `fs.*` (`fs.s3a.*` and its like), `aws_*`, `azure_*` and `google_*` go to
the store.
"""
UNSUPPORTED_HEAD = """\
## Keys of the JVM without effect

pyhudi knows these and does not do what they ask for; setting one brings an `OptionWarning`. `hoodie.x.*` stands for
all keys that begin with `hoodie.x.`.
"""


def render() -> str:
    """The page as Markdown."""
    parts = [HEAD]
    for section in SECTIONS:
        intro = inspect.getdoc(section.group) or ""
        rows = "\n".join(_row(declared) for declared in section.options)
        parts.append(f"## {section.title}\n\n{intro}\n\n| key | default | meaning |\n|---|---|---|\n{rows}\n")
    parts.append(UNSUPPORTED_HEAD)
    for area in UNSUPPORTED:
        keys = ", ".join(f"`{name}*`" if name.endswith(".") else f"`{name}`" for name in sorted(area.keys))
        parts.append(f"- **{area.area}** ({area.reason}): {keys}")
    return "\n".join(parts) + "\n"


def _row(declared: Option[Any]) -> str:
    others = ", ".join(f"`{alias}`" for alias in declared.aliases)
    also = f" Also: {others}." if others else ""
    legal = "" if declared.parser.legal == "text" else f" Legal: {declared.parser.legal}."
    meaning = f"{declared.doc}{legal}{also}".replace("|", r"\|")
    return f"| `{declared.key}` | {_shown(declared.default)} | {meaning} |"


def _shown(default: Any) -> str:
    if default is None or default in {"", ()}:
        return "not set"
    return f"`{text_of(default)}`"


def main(arguments: list[str]) -> int:
    """Write the page, or compare it; 1 when it is stale."""
    page = render()
    if "--check" in arguments:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page:
            return 0
        print(f"{PAGE.name} is stale: run `make docs`", file=sys.stderr)
        return 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
