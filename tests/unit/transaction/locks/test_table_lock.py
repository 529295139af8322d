"""The table lock on local disk, where the disk is full: it is a typed error, and the write after it works."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from tests.support.audit import audit
from tests.support.tables import contents, new_table, open_table, rows

from pyhudi.errors import OutOfSpaceError, PermissionDeniedError, StorageError
from pyhudi.storage.local import LocalStorage
from pyhudi.transaction.locks.table_lock import LOCK_FOLDER

FIRST, SECOND = (1, "oslo", 1, "a"), (1, "oslo", 2, "b")


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, OutOfSpaceError),
        (errno.EDQUOT, OutOfSpaceError),
        (errno.EFBIG, OutOfSpaceError),
        (errno.EROFS, PermissionDeniedError),
        (errno.EIO, StorageError),
    ],
    ids=errno.errorcode.get,
)
def test_lock_that_the_disk_cannot_keep_is_a_typed_error_and_nothing_of_the_write_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, kind: type[StorageError]
) -> None:
    storage = LocalStorage(tmp_path / "t")
    new_table(storage)
    open_table(storage).upsert(rows(FIRST))
    opens = os.open

    def refuse(path: Any, *rest: Any, **named: Any) -> int:
        if LOCK_FOLDER in os.fspath(path):
            raise OSError(number, os.strerror(number), path)
        return opens(path, *rest, **named)

    with monkeypatch.context() as full:
        full.setattr(os, "open", refuse)
        with pytest.raises(kind, match="the table lock cannot be taken") as caught:
            open_table(storage).upsert(rows(SECOND))

    assert type(caught.value) is kind
    assert LOCK_FOLDER in str(caught.value.context["path"])
    assert contents(storage) == {FIRST}
    open_table(storage).upsert(rows(SECOND))
    assert contents(storage) == {SECOND}
    audit(storage)
