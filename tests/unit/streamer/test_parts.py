"""Batches in parts, as tasks of Spark read them, without Spark."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from pyhudi.config.options_streamer import FolderOptions
from pyhudi.errors import SourceError
from pyhudi.storage.local import LocalStorage
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.sources.files import FileSource
from pyhudi.streamer.sources.protocol import Parts


def parts_of(folder: Path) -> Parts:
    pull = FileSource("json", LocalStorage(folder), FolderOptions()).pull(Checkpoint(), limit=None)
    assert pull is not None
    assert pull.parts is not None
    return pull.parts


def test_parts_of_files_have_the_columns_of_all_and_come_through_a_pickle(tmp_path: Path):
    (tmp_path / "1.json").write_text('{"id": 1}\n{"id": 2}')
    (tmp_path / "2.json").write_text('{"id": 0.5, "new": "x"}')
    parts = parts_of(tmp_path)
    columns = parts.columns(lambda function: [function(part) for part in parts.tasks], None, None)
    tasks = pickle.loads(pickle.dumps(parts.tasks))
    rows = pa.Table.from_batches([batch for part in tasks for batch in part.batches(columns, None, None)])
    assert rows.to_pylist() == [{"id": 1.0, "new": None}, {"id": 2.0, "new": None}, {"id": 0.5, "new": "x"}]


@pytest.mark.parametrize("text", ["{}", '{"id": 2}', None])
def test_file_that_changes_or_goes_before_its_task_reads_it_is_an_error(tmp_path: Path, text: str | None):
    file = tmp_path / "1.json"
    file.write_text('{"id": 1}')
    os.utime(file, (1_700_000_000, 1_700_000_000))
    (part,) = parts_of(tmp_path).tasks
    file.unlink() if text is None else file.write_text(text)
    with pytest.raises(SourceError, match="removed or changed"):
        list(part.batches(pa.schema([("id", pa.int64())]), None, None))
