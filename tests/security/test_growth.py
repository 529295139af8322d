"""Time grows with the input and not with its square: text that makes a naive pattern or loop start again and again."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import pytest
from tests.support.seconds import cpu_seconds

from pyhudi.errors import HudiError
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.keys.partition_paths import checked_segments, partition_values, unescape_value
from pyhudi.format.markers import parse_markers_file
from pyhudi.format.metadata.commit import decode_commit_metadata
from pyhudi.format.properties import parse_properties
from pyhudi.format.safe_paths import data_path_problem
from pyhudi.format.schema.avro_arrow import avro_to_arrow
from pyhudi.format.timeline.instant import parse_instant_file_name
from pyhudi.format.timeline.lsm_history import parse_manifest, parse_version_file
from pyhudi.format.timeline.table_version import V9
from pyhudi.io.log.scan import scan_blocks
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.secrets import redact

PATH = "t/.hoodie/x"
SIZE = 4000
FACTOR = 8
"""Of the sizes that are compared. A square would take 64 times as long; sound code some 8 times."""
TIMES_MAX = 30.0
NOISE_SECONDS = 0.02


def scan(data: bytes) -> None:
    storage = MemoryStorage()
    storage.put("log", data)
    for _ in scan_blocks(storage, "log"):
        pass


def segments(value: str) -> object:
    return checked_segments("c", [value], is_first=True, hive_style=False, url_encode=True)


INPUTS: dict[str, tuple[Callable[[str], object], str]] = {
    "properties: backslashes": (lambda text: parse_properties(f"a={text}x".encode(), path=PATH), "\\\\"),
    "properties: continued lines": (lambda text: parse_properties(text.encode(), path=PATH), "a=1\\\n"),
    "properties: blanks": (lambda text: parse_properties(f"a{text}b".encode(), path=PATH), " \t"),
    "properties: one key": (lambda text: parse_properties(text.encode(), path=PATH), "a=1\n"),
    "properties: escapes": (lambda text: parse_properties(f"a={text}".encode(), path=PATH), "\\u0041"),
    "data file: underscores": (parse_data_file, "a_"),
    "data file: tokens": (parse_data_file, "a_1-1-1_1.log.1"),
    "data file: digits": (lambda text: parse_data_file(f"a_1-1-{text}.parquet"), "1"),
    "instant: digits": (lambda text: parse_instant_file_name(f"{text}_.commit", V9), "1"),
    "markers: one line": (lambda text: parse_markers_file(text.encode(), path=PATH), ".marker.CREATE"),
    "markers: folders": (lambda text: parse_markers_file(f"{text}x\n".encode(), path=PATH), "a/"),
    "version: digits": (lambda text: parse_version_file(text.encode(), path=PATH), "1"),
    "manifest: strings": (lambda text: parse_manifest(f'["{text}'.encode(), path=PATH), '\\"'),
    "json: one number": (lambda text: decode_commit_metadata(f'{{"a":{text}}}'.encode(), path=PATH), "99"),
    "json: one key": (lambda text: decode_commit_metadata(f'{{{text}"a":1}}'.encode(), path=PATH), '"a":1,'),
    "schema: columns": (
        lambda text: avro_to_arrow('{"type":"record","name":"r","fields":[' + text, source=PATH),
        '{"name":"a","type":"int"},',
    ),
    "partition: dots": (data_path_problem, "../"),
    "partition: unseen characters": (data_path_problem, "\u200c."),
    "partition: values": (segments, "%2F="),
    "partition: fields": (
        lambda text: partition_values(text, ["a", "b"], hive_style=True, url_encoded=True),
        "a=1/",
    ),
    "partition: escapes": (unescape_value, "%%4"),
    "log: magics": (lambda text: scan(text.encode()), "#HUDI#"),
    "log: blocks that do not end": (lambda text: scan(text.encode()), "#HUDI#" + "\0" * 30),
    "redact: addresses": (redact, "://a:"),
    "redact: words": (redact, "authorization: Bearer "),
    "redact: keys": (redact, "-----BEGIN KEY"),
    "redact: parameters": (redact, "&sig="),
}


def seconds(action: Callable[[str], object], text: str) -> float:
    def act() -> None:
        with suppress(HudiError):
            action(text)

    return cpu_seconds(act)


@pytest.mark.parametrize("name", INPUTS)
def test_input_that_is_longer_takes_longer_in_proportion(name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("CRITICAL", logger="pyhudi")
    action, part = INPUTS[name]

    short, long = seconds(action, part * SIZE), seconds(action, part * SIZE * FACTOR)

    assert long < TIMES_MAX * short + NOISE_SECONDS
