"""What the example of docs/concurrency.md reads from a conflict is there."""

from __future__ import annotations

import pytest


def test_what_the_example_reads_from_a_conflict_is_there() -> None:
    from tests.support.two_writers import WRITES, opened, prepared, with_other_in_between

    import pyhudi

    storage = prepared()
    with pytest.raises(pyhudi.errors.WriteConflictError) as caught:
        WRITES["update oslo"](opened(with_other_in_between(storage, WRITES["delete in oslo"])))

    assert caught.value.context["winner"] == opened(storage).inspect.history()["instant"][0].as_py()
    (group,) = caught.value.context["file_groups"]
    assert group.startswith("city=oslo/")
