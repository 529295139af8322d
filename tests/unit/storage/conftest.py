from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from tests.support.hdfs import hdfs  # noqa: F401
from tests.support.minio import minio  # noqa: F401

from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import Storage

STORES = ("local", "memory", "memory-folder", "s3", "hdfs")


@pytest.fixture(params=STORES)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """An empty store of each kind, whose root does not exist yet where it can exist at all."""
    if request.param == "local":
        return LocalStorage(tmp_path / "some folder" / "table")
    if request.param == "memory":
        return MemoryStorage()
    if request.param == "memory-folder":
        return open_storage(f"memory://{uuid.uuid4().hex}/some/table")
    if request.param == "hdfs":
        return open_storage(request.getfixturevalue("hdfs").new_root())
    server = request.getfixturevalue("minio")
    return open_storage(server.new_root(), server.options)
