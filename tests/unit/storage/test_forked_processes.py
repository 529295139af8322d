"""Object stores in a process that was forked after its parent used one: an error, not a request that never ends."""

from __future__ import annotations

import os
import warnings

from obstore.store import MemoryStore

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.storage.object_store import ObjectStorage


def test_forked_child_of_a_process_that_used_an_object_store_is_refused_by_name() -> None:
    storage = ObjectStorage(MemoryStore(), uri="s3://bucket/t", prefix="t", options={})
    assert storage.info("x") is None

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a fork while threads run, which is what this is about
        child = os.fork()
    if child == 0:
        outcome = 1
        try:
            storage.info("x")
        except UnsupportedFeatureError as error:
            outcome = 7 if "forked" in str(error) else 2
        finally:
            os._exit(outcome)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
