"""The doctor accuses no healthy table of JVM Hudi, and finds what is wrong with those that killed writers left."""

from __future__ import annotations

import tarfile
import warnings
from pathlib import Path

import pytest

import pyhudi

GOLDEN = Path(__file__).parent
ARCHIVES = sorted(path.relative_to(GOLDEN).as_posix().removesuffix(".tar.xz") for path in GOLDEN.rglob("*.tar.xz"))
DAMAGED = {"killed": "write without a heartbeat", "orphaned": "file of no write"}
"""What the names of archives say of tables whose writers were killed, or left files."""


def tables(folder: Path) -> list[Path]:
    found = (path.parent.parent for path in folder.rglob(".hoodie/hoodie.properties"))
    return sorted(path for path in found if ".hoodie" not in path.parts)


@pytest.mark.parametrize("name", ARCHIVES)
def test_table_of_jvm_hudi_is_accused_only_where_its_writer_was_killed(name: str, tmp_path: Path) -> None:
    with tarfile.open(GOLDEN / f"{name}.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    expected = {problem for word, problem in DAMAGED.items() if name.endswith(f"-{word}")}
    for path in tables(tmp_path):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pyhudi.OptionWarning)
            found = pyhudi.HudiTable.for_path(path).inspect.findings().to_pylist()
        accused = [one for one in found if one["severity"] != "note" and one["problem"] not in expected]
        assert accused == []
        assert expected <= {one["problem"] for one in found}
