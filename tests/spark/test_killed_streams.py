"""A stream that is killed: a short form of `make chaos-streams`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.chaos import stream_program, streams

from pyhudi.spark.capabilities import HAS_PYTHON_SOURCES

PROGRAM_SECONDS_MAX = 600


@pytest.mark.timeout(PROGRAM_SECONDS_MAX)
@pytest.mark.skipif(not HAS_PYTHON_SOURCES, reason="before PySpark 4.0 no stream reads a Hudi table")
def test_stream_that_is_killed_and_started_again_has_every_row_once(spark: Any, tmp_path: Path) -> None:
    """Killed with its process; it goes on in the session of the other tests."""
    happened = streams.run(
        tmp_path,
        kind="mor",
        operation="insert",
        kills=1,
        seed=3,
        commits_ahead=2,
        effects_max=12,
        end=lambda folder, options: stream_program.follow(spark, folder, options, once=True),
    )
    assert happened.problems == ()
    assert happened.commits >= (3 if stream_program.limits() else 1)
