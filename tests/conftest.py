"""What a run needs before its first test, so that no test's time limit pays for it, and how processes share tests."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadGroupScheduling

from tests.support.minio import needs_server, server_program
from tests.support.parts import DurationRecorder, read_durations, split_in_parts

# Workers of Spark and other programs that tests start load what was compiled once: to compile pyhudi again takes longer
# than most of them run.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# JVMs of Spark live for minutes here: what their second compiler gains, it costs before, and more of it. Measured: 43 %
# less CPU time. Small heaps need no threads that collect garbage.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# How long an example takes says how busy the machine is. All runs try the same examples, so that a run judges what has
# changed before it; `pytest --hypothesis-profile=explore` tries others.
_ANY_MACHINE = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("explore", _ANY_MACHINE)
hypothesis.settings.register_profile("same examples", _ANY_MACHINE, derandomize=True)
hypothesis.settings.load_profile("same examples")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--part", choices=("quick", "long"), help="a part of the tests, as tests/support/parts.py divides them"
    )
    parser.addoption("--record-durations", action="store_true", help="write tests/durations.tsv, which divides them")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.record_durations and not hasattr(config, "workerinput"):
        config.pluginmanager.register(DurationRecorder())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.option.part is None:
        return
    quick, long = split_in_parts((item.nodeid for item in items), read_durations())
    left_out = long if config.option.part == "quick" else quick
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = [item for item in items if item.nodeid not in left_out]


def pytest_sessionstart(session: pytest.Session) -> None:
    """Keep the format of what tests read of a log: pytest adds its handlers to PySpark's loggers, which set theirs."""
    logging_plugin: Any = session.config.pluginmanager.get_plugin("logging-plugin")
    for handler in (logging_plugin.caplog_handler, logging_plugin.report_handler):
        handler.setFormatter = lambda _: None


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the S3 server where a test will ask for it; where it cannot be built these tests are skipped, with why."""
    if session.config.option.collectonly or not any(map(needs_server, session.items)):
        return
    with contextlib.suppress(RuntimeError):
        server_program()


class _ByFile(LoadGroupScheduling):
    """The tests of a group run in one process, and so do those of a file, which share what they prepare.

    With each test on its own, the scheduler searches lists of all tests for each of them. What takes minutes begins
    first, so that at the end of a run no process waits long for another one.
    """

    def _split_scope(self, nodeid: str) -> str:
        scope = super()._split_scope(nodeid)
        return nodeid.partition("::")[0] if scope == nodeid else scope

    def _assign_work_unit(self, node: Any) -> None:
        long = next(filter(_takes_minutes, self.workqueue), None)
        if long is not None:
            self.workqueue.move_to_end(long, last=False)
        super()._assign_work_unit(node)


def _takes_minutes(scope: str) -> bool:
    """Whether it is a group, whose tests share a server, or a file of tests with Spark or whole programs."""
    return "/" not in scope or scope.startswith(("tests/spark/", "tests/examples/", "tests/chaos/"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> _ByFile:
    return _ByFile(config, log)
