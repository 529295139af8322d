"""The files of a commit, in both encodings, against the whole of its metadata."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyhudi.errors import CorruptDataError
from pyhudi.format.metadata.commit import decode_commit_metadata
from pyhudi.format.metadata.written_files import WrittenFile, decode_written_files
from pyhudi.table.written_files import written_files_of

GOLDEN = Path(__file__).parents[3] / "golden" / "metadata"
PATH = "t/.hoodie/timeline/1.commit"
COMMITS = ("commit_v6.json", "commit_v9.avro", "replacecommit_v6.json", "replacecommit_v9.avro")


@pytest.mark.parametrize("name", COMMITS)
def test_the_files_of_a_commit_are_those_of_its_whole_metadata(name: str) -> None:
    data = (GOLDEN / name).read_bytes()

    files = decode_written_files(data, path=PATH)

    assert files == written_files_of(decode_commit_metadata(data, path=PATH))
    assert files.written
    assert bool(files.replaced) is name.startswith("replace")


def test_appended_bytes_are_a_range_of_the_log() -> None:
    stats = [
        {"fileId": "g-0", "path": "p=1/.g-0_1.log.1_0-0-0", "fileSizeInBytes": 30, "logOffset": 40},
        {"fileId": "g-1", "path": "p=1/g-1_0-0-0_1.parquet", "fileSizeInBytes": 7},
        {"fileId": "g-2", "path": "g-2_0-0-0_1.parquet"},
        {"fileId": "", "path": None},
    ]

    files = decode_written_files(json.dumps({"partitionToWriteStats": {"p=1": stats}}).encode(), path=PATH)

    assert files.written == {
        "p=1": (
            WrittenFile("g-0", ".g-0_1.log.1_0-0-0", 40, 70),
            WrittenFile("g-1", "g-1_0-0-0_1.parquet", 0, 7),
        ),
        "": (WrittenFile("g-2", "g-2_0-0-0_1.parquet", 0, 0),),
    }
    assert [file.is_log for file in files.written["p=1"]] == [True, False]


@pytest.mark.parametrize(
    "stats", [{"p": [{"fileId": 1, "path": "p/a"}]}, {"p": [{"path": 1}]}, {"p": [None]}, [1], {"p": 3}]
)
def test_files_of_the_wrong_type_are_an_error_that_names_the_commit(stats: object) -> None:
    with pytest.raises(CorruptDataError) as refused:
        decode_written_files(json.dumps({"partitionToWriteStats": stats}).encode(), path=PATH)
    assert refused.value.context["path"] == PATH


def test_an_empty_commit_is_damaged() -> None:
    with pytest.raises(CorruptDataError):
        decode_written_files(b"", path=PATH)
