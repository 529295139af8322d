"""The error tree: drawn as it is, and able to cross processes."""

from __future__ import annotations

import inspect
import pickle
import re

import pytest

from pyhudi import errors
from pyhudi.errors import HudiError, Retry

ALL = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, HudiError)]
BRANCH = re.compile(r"^(?P<lead>[ │]*(?:├─|└─)?\s*)(?P<names>\w+(?:\s{3}\w+)*)")


def drawn_tree() -> dict[str, str]:
    """Each class in the module's docstring with the class that it hangs below."""
    tree: dict[str, str] = {}
    parents: list[tuple[int, str]] = []
    for line in (errors.__doc__ or "").splitlines():
        branch = BRANCH.match(line)
        if branch is None or "Error" not in branch["names"]:
            continue
        names = re.findall(r"\w+Error\b", branch["names"])
        depth = len(branch["lead"])
        while parents and parents[-1][0] >= depth:
            parents.pop()
        for name in names:
            tree[name] = parents[-1][1] if parents else "Exception"
        parents.append((depth, names[-1]))
    return tree


def test_tree_in_the_docstring_is_the_tree_of_the_classes():
    assert drawn_tree() == {kind.__name__: kind.__mro__[1].__name__ for kind in ALL}


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_error_crosses_a_process_border_unchanged(kind):
    error = kind("what happened", path="a/b", offset=7, unknown=None)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (copy.message, copy.context, copy.retry) == (error.message, error.context, error.retry)
    assert str(copy) == str(error) == "what happened [path='a/b', offset=7]"


def test_error_without_context_reads_as_its_message():
    assert str(HudiError("what happened")) == "what happened"


@pytest.mark.parametrize("kind", ALL, ids=lambda kind: kind.__name__)
def test_error_says_when_it_is_raised_and_what_may_be_done(kind):
    assert inspect.getdoc(kind)
    assert kind.retry in Retry


def test_config_error_is_a_value_error():
    assert issubclass(errors.ConfigError, ValueError)
