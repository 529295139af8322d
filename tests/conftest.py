"""What a run needs before its first test, so that no test's time limit pays for it."""

from __future__ import annotations

import contextlib

import pytest

from tests.support.minio import needs_server, server_program


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the S3 server where a test will ask for it; where it cannot be built these tests are skipped, with why."""
    if session.config.option.collectonly or not any(map(needs_server, session.items)):
        return
    with contextlib.suppress(RuntimeError):
        server_program()
