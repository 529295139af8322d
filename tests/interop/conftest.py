"""One process of each JVM Hudi release for the whole run, started when first asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.oracle import Oracle, missing_oracle

_HERE = Path(__file__).parent

#: A life takes about a minute on two cores; a release that starts takes ten seconds more.
_TIMEOUT_SECONDS = 900


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "quick: the part of the interop suite that CI runs")
    config.addinivalue_line("markers", "thorough: what `make interop` leaves out and `make interop-all` runs")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.interop)
            # After the test's own marks, so that these are stronger.
            item.add_marker(pytest.mark.timeout(_TIMEOUT_SECONDS))


@pytest.fixture(scope="session")
def oracle_of() -> Iterator[Callable[[str], Oracle]]:
    """JVM Hudi by release; skips the test, with the reason, where it cannot be had."""
    running: dict[str, Oracle] = {}

    def get(release: str) -> Oracle:
        reason = missing_oracle(release)
        if reason is not None:
            pytest.skip(reason)
        return running.setdefault(release, Oracle(release))

    yield get
    for oracle in running.values():
        oracle.stop()
