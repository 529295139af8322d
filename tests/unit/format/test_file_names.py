"""Names of data files and markers."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.errors import CorruptDataError
from pyhudi.format import markers
from pyhudi.format.file_names import BaseFileName, LogFileName, file_id, parse_data_file
from pyhudi.format.markers import (
    Marker,
    MarkerKind,
    encode_markers_file,
    is_markers_file,
    marker_folder,
    marker_path,
    markers_file_name,
    parse_marker_path,
    parse_markers_file,
)

ID = "3fe6b0a9-5f3c-4d3e-9d1c-0c6d2a3a7c11-0"
T1 = "20240102030405678"
BASE = f"{ID}_3-566-1802_{T1}.parquet"
LOG = f".{ID}_{T1}.log.1_0-619-1915"
PATH = ".hoodie/.temp/x/MARKERS0"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (BASE, BaseFileName(ID, "3-566-1802", T1, ".parquet")),
        ("files-0000-0_0-4-3_00000000000000010.hfile", BaseFileName("files-0000-0", "0-4-3", f"{10:017}", ".hfile")),
        ("f_0-0-0_20240102030405.orc", BaseFileName("f", "0-0-0", "20240102030405", ".orc")),
        (LOG, LogFileName(ID, T1, 1, "0-619-1915")),
        (f".{ID}_{T1}.log.12_1-0-1.cdc", LogFileName(ID, T1, 12, "1-0-1", is_cdc=True)),
        (f".{ID}_{T1}.log.3", LogFileName(ID, T1, 3, None)),
    ],
)  # fmt: skip
def test_name_of_a_data_file_parses_and_formats(name: str, expected: BaseFileName | LogFileName) -> None:
    assert parse_data_file(name) == expected
    assert str(expected) == name


@pytest.mark.parametrize(
    "name",
    ["", ".hoodie_partition_metadata", f".{BASE}.crc", f"{BASE}.crc", f"{BASE}.marker.CREATE", "part-00000.parquet",
     f"{ID}_{T1}.parquet", f"{ID}_0-0_{T1}.parquet", f"a_b_0-0-0_{T1}.parquet", f"p/{BASE}", f"{BASE}\n", f"_{BASE}",
     f".{ID}_{T1}.log", f".{ID}_{T1}.log.x", f"{ID}_{T1}.log.1_0-0-0", ".commits_.archive.1_1-0-1", f".{BASE}",
     f".{ID}_{T1}.log.1.cdc", "_SUCCESS"],
)  # fmt: skip
def test_name_of_another_file_is_no_data_file(name: str) -> None:
    assert parse_data_file(name) is None


def test_file_id_of_a_new_group_is_uuid_and_number() -> None:
    assert file_id(ID[:-2], 7) == f"{ID[:-2]}-7"


@pytest.mark.parametrize("partition_path", ["", "p=1", "a/b c/\u00e9"])
@pytest.mark.parametrize("kind", MarkerKind)
def test_direct_marker_names_its_data_file(partition_path: str, kind: MarkerKind) -> None:
    data_path = "/".join(filter(None, [partition_path, BASE]))
    path = marker_path(T1, Marker(data_path, kind))
    assert path == "/".join(filter(None, [".hoodie/.temp", T1, partition_path, f"{BASE}.marker.{kind.value}"]))
    assert parse_marker_path(path, T1) == data_path


@pytest.mark.parametrize(
    "rest",
    ["MARKERS.type", "MARKERS0", f"p/{BASE}", f"p/{BASE}.marker.OTHER", f"../../{BASE}.marker.CREATE",
     f".hoodie/{BASE}.marker.CREATE", "hoodie.properties.marker.CREATE", f"p//{BASE}.marker.CREATE",
     f"./{BASE}.marker.CREATE", "marker.CREATE", ".marker.CREATE", ""],
)  # fmt: skip
def test_file_that_marks_no_data_file_is_passed_over(rest: str) -> None:
    assert parse_marker_path(f"{marker_folder(T1)}/{rest}", T1) is None


def test_marker_of_another_write_is_passed_over() -> None:
    assert parse_marker_path(marker_path(f"{T1}1", Marker(f"p/{BASE}", MarkerKind.CREATE)), T1) is None


def test_markers_of_the_timeline_server_parse() -> None:
    data = f"p=0/{BASE}.marker.CREATE\np=0/{LOG}.marker.APPEND\n{BASE}.marker.MERGE\n".encode()
    assert parse_markers_file(data, path=PATH) == (
        Marker(f"p=0/{BASE}", MarkerKind.CREATE),
        Marker(f"p=0/{LOG}", MarkerKind.APPEND),
        Marker(BASE, MarkerKind.MERGE),
    )


@given(st.lists(st.sampled_from(MarkerKind), max_size=4), st.sampled_from(["", "p=1/", "a/b c/\u00e9/"]))
@settings(max_examples=20, deadline=None)
def test_markers_that_were_encoded_parse_to_the_same(kinds: list[MarkerKind], folder: str) -> None:
    written = tuple(Marker(f"{folder}{name}", kind) for kind in kinds for name in (BASE, LOG))
    assert parse_markers_file(encode_markers_file(written), path=PATH) == written
    assert is_markers_file(markers_file_name(len(kinds)))


def test_markers_file_cut_anywhere_gives_the_whole_lines() -> None:
    lines = [f"p=0/{BASE}.marker.CREATE\n".encode(), f"p=\u00e9/{LOG}.marker.CREATE\n".encode()]
    data = b"".join(lines)
    for size in range(len(data) + 1):
        whole = (size >= len(lines[0])) + (size >= len(data))
        assert len(parse_markers_file(data[:size], path=PATH)) == whole


@pytest.mark.parametrize(
    "line", ["", "x", f"../{BASE}.marker.CREATE", f"/{BASE}.marker.CREATE", ".hoodie/x.marker.CREATE"]
)
def test_line_that_names_no_data_file_is_refused(line: str) -> None:
    data = f"{BASE}.marker.MERGE\n{line}\n".encode()
    with pytest.raises(CorruptDataError) as caught:
        parse_markers_file(data, path=PATH)
    assert (caught.value.context["path"], caught.value.context["line"]) == (PATH, 2)


def test_markers_file_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(markers, "MARKERS_BYTES_MAX", 5)
    with pytest.raises(CorruptDataError, match="too large"):
        parse_markers_file(f"{BASE}.marker.MERGE\n".encode(), path=PATH)


@pytest.mark.parametrize(
    ("name", "expected"), [("MARKERS0", True), ("MARKERS12", True), ("MARKERS.type", False), ("MARKERS", False)]
)
def test_file_of_markers_is_known_by_its_name(name: str, expected: bool) -> None:
    assert is_markers_file(name) is expected


@given(st.binary(max_size=80))
@settings(max_examples=60, deadline=None)
def test_any_bytes_give_markers_or_a_typed_error(data: bytes) -> None:
    for content in (data, data + b"\n"):
        with contextlib.suppress(CorruptDataError):
            parse_markers_file(content, path=PATH)


@given(st.text(max_size=60))
@settings(max_examples=60, deadline=None)
def test_any_text_is_a_data_file_that_formats_back_or_none(text: str) -> None:
    for name in (text, f"{text}_0-0-0_1.parquet", f".{text}_1.log.1_0-0-0"):
        parsed = parse_data_file(name)
        assert parsed is None or str(parsed) == name
