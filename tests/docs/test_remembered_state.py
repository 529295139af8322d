"""The page about remembered state names each cache of the source, and nothing else."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.support.pages import ROOT

SOURCE = ROOT / "src"
PAGE = ROOT / "docs" / "design" / "remembered_state.md"

CACHES = frozenset({"cache", "lru_cache"})
"""Decorators that remember what a function returned."""
COLLECTIONS = frozenset(
    {"Counter", "OrderedDict", "WeakKeyDictionary", "WeakSet", "WeakValueDictionary", "defaultdict", "deque"}
    | {"bytearray", "dict", "list", "local", "set"}
)
"""Types whose values are filled later. A collection with entries is a table of constants."""


def remembering_names(tree: ast.Module) -> Iterator[str]:
    """The functions whose results are cached, and the variables of the module that are filled or bound again."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(_name(one) in CACHES for one in node.decorator_list):
            yield node.name
        elif isinstance(node, ast.Global):
            yield from node.names
        elif isinstance(node, ast.Call) and _caches_a_function(node):
            yield ast.unparse(node)
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and _is_filled_later(statement.value):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            yield from (ast.unparse(target) for target in targets)


def _name(node: ast.expr) -> str:
    """`lru_cache` of `functools.lru_cache(maxsize=4)`."""
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _caches_a_function(node: ast.Call) -> bool:
    """`cache(function)`, which is no decorator."""
    return _name(node) in CACHES and bool(node.args)


def _is_filled_later(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Dict | ast.List | ast.Set):
        return not (value.keys if isinstance(value, ast.Dict) else value.elts)
    return (
        isinstance(value, ast.Call)
        and _name(value) in COLLECTIONS
        and (not value.args or _name(value) == "defaultdict")
    )


def names_of_page() -> set[str]:
    """`table/history.py::_kept` for each name in the first column of a table."""
    rows = re.findall(r"^\| `([^`]+\.py)`: ((?:`\w+`(?:, )?)+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {f"{path}::{name}" for path, names in rows for name in re.findall(r"\w+", names)}


def names_of_source() -> set[str]:
    found = set()
    for path in sorted(SOURCE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        place = path.relative_to(SOURCE).as_posix().removeprefix("pyhudi/")
        found |= {f"{place}::{name}" for name in remembering_names(tree)}
    return found


def test_each_cache_of_the_source_is_on_the_page() -> None:
    assert sorted(names_of_source() - names_of_page()) == []


def test_page_names_no_cache_that_is_gone() -> None:
    assert sorted(names_of_page() - names_of_source()) == []


def test_caches_are_recognised_in_each_form() -> None:
    source = """
from functools import cache, lru_cache
import functools
_a = {}
_b: dict[str, int] = dict()
_c = OrderedDict()
_d = weakref.WeakKeyDictionary()
NAMES = {"a": 1}
_e = defaultdict(list)
@functools.lru_cache(maxsize=4)
def f(): ...
class C:
    @cache
    def g(self): ...
def h():
    global _last
    _last = 1
k = lru_cache(print)
"""
    found = set(remembering_names(ast.parse(source)))

    assert found == {"_a", "_b", "_c", "_d", "_e", "f", "g", "_last", "lru_cache(print)"}
