"""Spans of OpenTelemetry: the steps of a write, a read and a service, one inside the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import pyhudi

SCHEMA = pa.schema([("id", pa.int64()), ("ts", pa.int64())])


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return kept


def parents(spans: tuple[ReadableSpan, ...]) -> dict[str, str | None]:
    names = {span.context.span_id: span.name for span in spans}
    return {span.name: names.get(span.parent.span_id) if span.parent else None for span in spans}


def test_steps_of_an_upsert_are_inside_its_span(tmp_path: Path, exporter: InMemorySpanExporter) -> None:
    rides = pyhudi.HudiTable.create(tmp_path / "rides", schema=SCHEMA, record_key="id", ordering_fields="ts")
    rides.upsert(pa.table({"id": [1], "ts": [1]}))
    exporter.clear()
    rides.upsert(pa.table({"id": [1], "ts": [2]}))

    spans = exporter.get_finished_spans()
    found = parents(spans)
    assert found["upsert"] is None
    steps = [span.name for span in spans if found[span.name] == "upsert"]
    assert steps[:3] == ["recover", "stage rows", "begin"]
    assert steps.index("write files") < steps.index("commit") < steps.index("clean")
    (upsert,) = (span for span in spans if span.name == "upsert")
    assert upsert.attributes == {"hudi.table": "rides"}


def test_steps_of_a_read_and_of_services(tmp_path: Path, exporter: InMemorySpanExporter) -> None:
    rides = pyhudi.HudiTable.create(tmp_path / "rides", schema=SCHEMA, record_key="id", ordering_fields="ts")
    rides.upsert(pa.table({"id": [1], "ts": [1]}))
    exporter.clear()
    rides.scan().to_arrow()
    rides.services.run()

    names = [span.name for span in exporter.get_finished_spans()]
    assert names[:2] == ["plan read", "read file slices"]
    assert {"rollback", "clean", "archive"} <= set(names)


def test_program_without_opentelemetry_does_not_load_it(tmp_path: Path) -> None:
    program = f"""
import sys, pyarrow as pa, pyhudi
t = pyhudi.HudiTable.create("{tmp_path}/t", schema=pa.schema([("id", pa.int64())]), record_key="id")
t.insert(pa.table({{"id": [1]}}))
print([name for name in sys.modules if name.startswith(("opentelemetry", "pyhudi.telemetry"))])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=150, check=True)
    assert done.stdout.strip() == "['pyhudi.telemetry', 'pyhudi.telemetry.tracing']"
