"""Write docs/reference/api.md from the docstrings of all public names; with --check, fail when the page is stale.

Public are the names in `__all__` of the modules below, their public members, and the classes that only a property leads
to, such as that of `table.inspect`.
"""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import importlib
import inspect
import itertools
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "api.md"
MODULES = (
    "pyhudi",
    "pyhudi.mergers",
    "pyhudi.streamer",
    "pyhudi.cdc",
    "pyhudi.sensor",
    "pyhudi.errors",
    "pyhudi.config",
)
HEAD = """\
# API

Written by `tools/api_reference.py` from the docstrings; `make docs` writes it again. A name that is not on this page is
not public and may change at any time. `rows` are a Spark DataFrame, or anything that speaks Arrow: pyarrow, polars,
pandas (2.2 or newer), DuckDB.
"""
_SECTION = re.compile(r"^(Args|Attributes|Returns|Yields|Raises|Warns|Cost|Example|Examples):$")
_TITLES = {"Args": "Arguments", "Example": "Example", "Examples": "Example"}


def render() -> str:
    """The page as Markdown."""
    parts = [HEAD]
    for name in MODULES:
        module = importlib.import_module(name)
        parts.append(f"## {name}\n\n{_text(module)}")
        parts += _members_of_module(module)
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _members_of_module(module: ModuleType) -> Iterator[str]:
    for name in _public_names(module):
        value = getattr(module, name)
        if inspect.isclass(value) and value.__module__.startswith("pyhudi"):
            yield from _class(f"{module.__name__}.{name}", value)
        elif inspect.isfunction(value):
            yield f"### {module.__name__}.{name}\n\n{_signature(name, value)}\n\n{_text(value)}"
        elif (alias := _alias(module, name)) is not None:
            yield f"### {module.__name__}.{name}\n\n{alias}"


def _alias(module: ModuleType, name: str) -> str | None:
    """A name for a type: what it stands for, and the docstring below its definition."""
    home = importlib.import_module(getattr(module, "_HOMES", {}).get(name, module.__name__))
    body = ast.parse(inspect.getsource(home)).body
    for statement, behind in itertools.pairwise(body):
        if not (isinstance(statement, ast.AnnAssign) and ast.unparse(statement.target) == name and statement.value):
            continue
        if isinstance(behind, ast.Expr) and isinstance(behind.value, ast.Constant):
            stands_for = ast.unparse(statement.value).strip("'")
            return f"```text\n{name} = {stands_for}\n```\n\n{_markdown(inspect.cleandoc(str(behind.value.value)))}"
    return None


def _public_names(module: ModuleType) -> list[str]:
    declared = getattr(module, "__all__", None)
    if declared is not None:
        return [name for name in declared if not name.startswith("_")]
    own = (value for value in vars(module).values() if getattr(value, "__module__", None) == module.__name__)
    return [value.__name__ for value in own if inspect.isclass(value) and not value.__name__.startswith("_")]


def _class(title: str, kind: type) -> Iterator[str]:
    """A class, its members, and the classes that its properties lead to."""
    yield f"### {title}\n\n{_bases(kind)}{_text(kind)}{_fields(kind)}"
    behind: list[tuple[str, type]] = []
    for name, member in _members(kind):
        heading = f"#### {title.rpartition('.')[2]}.{name}"
        function = _function(member)
        if function is None:
            continue
        if isinstance(member, property | functools.cached_property):
            target = _accessor(function)
            behind += [(f"{title}.{name}", target)] if target is not None else []
            shown = f"```text\n{name}: {_annotation(inspect.signature(function).return_annotation)}\n```"
        else:
            shown = _signature(name, function, bound=not isinstance(member, staticmethod))
        yield f"{heading}\n\n{shown}\n\n{_text(function)}"
    for path, target in behind:
        yield from _class(path, target)


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Public members in the order of the source, those of bases of pyhudi's own behind them."""
    seen: set[str] = set()
    for base in kind.__mro__:
        if base.__module__.startswith("pyhudi"):
            for name, member in vars(base).items():
                if not name.startswith("_") and name not in seen:
                    seen.add(name)
                    yield name, member


def _function(member: Any) -> Any:
    if isinstance(member, property):
        return member.fget
    if isinstance(member, functools.cached_property):
        return member.func
    if isinstance(member, classmethod | staticmethod):
        return member.__func__
    return member if inspect.isfunction(member) else None


def _accessor(function: Any) -> type | None:
    """The class that a property returns, if it is pyhudi's and not public by itself."""
    name = _annotation(inspect.signature(function).return_annotation)
    found = function.__globals__.get(name) or _imported_by(function, name)
    if not (inspect.isclass(found) and found.__module__.startswith("pyhudi.api")):
        return None
    public = {getattr(importlib.import_module(module), one, None) for module in MODULES for one in _public(module)}
    return None if found in public else found


def _imported_by(function: Any, name: str) -> Any:
    """What the function imports by this name when it is called."""
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        if isinstance(node, ast.ImportFrom) and node.module and name in {one.name for one in node.names}:
            return getattr(importlib.import_module(node.module), name)
    return None


@functools.cache
def _public(module: str) -> tuple[str, ...]:
    return tuple(_public_names(importlib.import_module(module)))


def _fields(kind: type) -> str:
    if issubclass(kind, enum.Enum):
        rows = "\n".join(f"| `{member.name}` | `{member.value!r}` |" for member in kind)
        return f"\n\n| member | value |\n|---|---|\n{rows}"
    if not dataclasses.is_dataclass(kind):
        return ""
    shown = [one for one in dataclasses.fields(kind) if not one.name.startswith("_")]
    rows = "\n".join(f"| `{one.name}` | `{_annotation(one.type)}` |".replace(" | None`", r" \| None`") for one in shown)
    return f"\n\n| field | type |\n|---|---|\n{rows}" if rows else ""


def _bases(kind: type) -> str:
    own = [f"`{base.__name__}`" for base in kind.__bases__ if base not in {object, Exception}]
    return f"A kind of {' and '.join(own)}. " if issubclass(kind, Exception) and own else ""


def _signature(name: str, function: Any, *, bound: bool = False) -> str:
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())[1 if bound else 0 :]
    shown: list[str] = []
    star = False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            shown.append("*")
        star = star or parameter.kind in {parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL}
        shown.append(_parameter(parameter))
    returned = _annotation(signature.return_annotation)
    text = f"{name}({', '.join(shown)}) -> {returned}"
    if len(text) > 100:
        text = f"{name}(\n" + "".join(f"    {one},\n" for one in shown) + f") -> {returned}"
    return f"```text\n{text}\n```"


def _parameter(parameter: inspect.Parameter) -> str:
    kind = parameter.kind
    stars = "*" if kind is parameter.VAR_POSITIONAL else "**" if kind is parameter.VAR_KEYWORD else ""
    annotated = "" if parameter.annotation is parameter.empty else f": {_annotation(parameter.annotation)}"
    default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
    return f"{stars}{parameter.name}{annotated}{default}"


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))


def _text(value: Any) -> str:
    """A docstring as Markdown: sections of Google's style become lists."""
    return _markdown(inspect.getdoc(value) or "")


def _markdown(text: str) -> str:
    lines: list[str] = []
    within = example = False
    for line in [*text.splitlines(), ""]:
        section = _SECTION.match(line)
        if line.startswith(">>> ") or example:
            within = False
            lines += [line] if example and line else ["```", ""] if example else ["```text", line]
            example = bool(line)
        elif section:
            within = True
            lines += ["", f"{_TITLES.get(section.group(1), section.group(1))}:", ""]
        elif within and re.match(r"^    \S", line):
            name, colon, rest = line.strip().partition(":")
            lines.append(f"- `{name}`:{rest}" if colon and re.fullmatch(r"[\w*., ]+", name) else f"- {line.strip()}")
        elif within and line.startswith("        "):
            lines.append(f"  {line.strip()}")
        else:
            within = within and not line.strip()
            lines.append(line)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip()


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
