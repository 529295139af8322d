"""Stores that live in the memory of one process, found again by the `StorageSpec` of their tasks.

A task carries a `StorageSpec` and opens its store from that. For a store that is only an object of this
process (memory, or a wrapper of a test) the spec carries a token, and this registry maps the token to the
object.
"""

from __future__ import annotations

import os
import uuid
import weakref
from typing import TYPE_CHECKING

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.storage.protocol import StorageSpec

if TYPE_CHECKING:
    from pyhudi.storage.protocol import Storage

TOKEN_OPTION = "pyhudi.in-process"  # noqa: S105

_stores: weakref.WeakValueDictionary[str, Storage] = weakref.WeakValueDictionary()


def register(storage: Storage) -> StorageSpec:
    """A spec that finds this very object again, in this process, for as long as somebody holds it."""
    token = f"{os.getpid()}-{uuid.uuid4().hex}"
    _stores[token] = storage
    return StorageSpec(storage.uri, {TOKEN_OPTION: token})


def find(spec: StorageSpec) -> Storage | None:
    """The object behind a spec, or None for a spec of a store that can be opened anywhere.

    Raises `UnsupportedFeatureError` in any other process than the store's, where an empty store of the same
    name would silently take its place. A forked child has a copy of the store, which is another store.
    """
    token = spec.options.get(TOKEN_OPTION)
    if token is None:
        return None
    storage = _stores.get(token)
    if storage is None or not token.startswith(f"{os.getpid()}-"):
        raise UnsupportedFeatureError(
            "this store lives in the memory of one process; for several, use a folder or an object store",
            path=spec.uri,
        )
    return storage
