"""What requests to an object store cost."""

from __future__ import annotations

import pytest

from pyhudi.storage.metered import Call
from pyhudi.telemetry.prices import dollars_a_month, dollars_of


def test_writes_and_listings_cost_more_than_reads_and_deletes_nothing() -> None:
    assert dollars_of({Call.PUT: 1000}) == dollars_of({Call.LIST: 1000}) == pytest.approx(0.005)
    assert dollars_of({Call.GET: 1000}) == dollars_of({Call.HEAD: 1000}) == pytest.approx(0.0004)
    assert dollars_of({Call.DELETE: 1000}) == dollars_of({}) == 0


def test_month_has_a_commit_a_minute_on_thirty_days() -> None:
    assert dollars_a_month({"PUT": 60, "LIST": 40, "GET": 200}) == pytest.approx(43_200 * (0.0005 + 0.00008))


def test_each_kind_of_call_has_a_price() -> None:
    assert dollars_of(dict.fromkeys(Call, 0)) == 0
