"""Registry of the stores that are objects of this process: stores in memory, and wrappers of tests.

A task opens its store from a `StorageSpec`. The specification of such a store holds a token, and the registry maps
the token to the object.
"""

from __future__ import annotations

import os
import uuid
import weakref
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from pyhudi.errors import UnsupportedFeatureError
from pyhudi.storage.protocol import StorageSpec

if TYPE_CHECKING:
    from pyhudi.storage.protocol import Storage

TOKEN_OPTION = "pyhudi.in-process"  # noqa: S105

_stores: weakref.WeakValueDictionary[str, Storage] = weakref.WeakValueDictionary()


def register(storage: Storage, options: Mapping[str, str] = MappingProxyType({})) -> StorageSpec:
    """A specification from which `find` returns this object, in this process, while it is referenced.

    `options`: those of the store that this one wraps, by which others in its place are opened.
    """
    token = f"{os.getpid()}-{uuid.uuid4().hex}"
    _stores[token] = storage
    return StorageSpec(storage.uri, {**options, TOKEN_OPTION: token})


def find(spec: StorageSpec) -> Storage | None:
    """The registered object of a specification, or None for a store that every process can open.

    Raises:
        UnsupportedFeatureError: the store is an object of another process, or is gone. An empty store of the same name
            must not silently take its place. A forked child has a copy of the store, which is another store.
    """
    token = spec.options.get(TOKEN_OPTION)
    if token is None:
        return None
    storage = _stores.get(token)
    if storage is None or not token.startswith(f"{os.getpid()}-"):
        raise UnsupportedFeatureError(
            "the store lives in the memory of one process, which is not this one: for several processes, use a folder"
            " or an object store",
            path=spec.uri,
        )
    return storage
