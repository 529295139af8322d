"""Write docs/reference/options.md from the registry of options; with --check, fail when the page is stale."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import Any

from pyhudi.config.option import Option, text_of
from pyhudi.config.refused_keys import BOTH, ENCRYPTION, ENCRYPTION_REASON, REFUSED, Refused
from pyhudi.config.registry import SECTIONS
from pyhudi.config.unsupported_keys import UNSUPPORTED

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "options.md"
HEAD = """\
# Options

Written by `tools/option_reference.py` from the registry in `src/pyhudi/config/`; `make docs` writes it again.

Options go to `df.write.options(...)`, `spark.read.options(...)` and to every method of `HudiTable` that takes
`hudi_options`. Names are Hudi's own. Values are texts, or the Python values that they stand for. What a call does
not say of the table is taken from the table's own properties, and what contradicts them is refused.

Names may be written in any case. A name without a dot that is none of these is an error where Python calls pyhudi, and
a warning in Spark, whose formats share their options. A `hoodie.*` key that is unknown brings an `OptionWarning` with
the nearest known one; so does a key of the last section, while those of the section before it are errors. `fs.*`
(`fs.s3a.*` and its like), `aws_*`, `azure_*` and `google_*` go to the store.
"""
REFUSED_HEAD = """\
## Keys of JVM Hudi that are refused

These ask for other rows, other files, a check or an identity that pyhudi cannot give. A value that asks for nothing
special is harmless; any other is an `UnsupportedFeatureError`. `hoodie.x.*` stands for all keys that begin with
`hoodie.x.`.

| keys | harmless | why, and what to do |
|---|---|---|
"""
UNSUPPORTED_HEAD = """\
## Keys of JVM Hudi without effect

pyhudi knows these and does not do what they ask for, which changes neither rows nor files; setting one brings an
`OptionWarning`, unless its value asks for nothing else than what is so anyway.
"""


def render() -> str:
    """The page as Markdown."""
    parts = [HEAD]
    for section in SECTIONS:
        intro = inspect.getdoc(section.group) or ""
        rows = "\n".join(_row(declared) for declared in section.options)
        parts.append(f"## {section.title}\n\n{intro}\n\n| key | default | meaning |\n|---|---|---|\n{rows}\n")
    own = [_refused(one) for one in REFUSED]
    encryption = f"| {', '.join(map(_name, ENCRYPTION))} |  | {ENCRYPTION_REASON} |"
    parts.append(REFUSED_HEAD + "\n".join([*own, encryption]) + "\n")
    parts.append(UNSUPPORTED_HEAD)
    for area in UNSUPPORTED:
        keys = ", ".join(map(_name, sorted(area.keys)))
        parts.append(f"- **{area.area}** ({area.reason}): {keys}")
    return "\n".join(parts) + "\n"


def _row(declared: Option[Any]) -> str:
    others = ", ".join(f"`{alias}`" for alias in declared.aliases)
    also = f" Also: {others}." if others else ""
    legal = "" if declared.parser.legal == "text" else f" Legal: {declared.parser.legal}."
    meaning = f"{declared.doc}{legal}{also}".replace("|", r"\|")
    return f"| `{declared.key}` | {_shown(declared.default)} | {meaning} |"


def _refused(one: Refused) -> str:
    harmless = ", ".join(map(_name, one.harmless))
    sides = "" if one.sides == BOTH else f" ({'/'.join(sorted(side.value for side in one.sides))}s)"
    return f"| {', '.join(map(_name, one.keys))}{sides} | {harmless} | {one.reason} |"


def _name(name: str) -> str:
    return f"`{name}*`" if name.endswith(".") else f"`{name}`"


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
