"""A notebook that a kernel runs: what its cells show of a table, a scan, a result and long work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from tests.support.hostile_text import HOSTILE, assert_shows_only_text

pytestmark = pytest.mark.timeout(600)  # a kernel begins

_RUN = """
import sys
import nbclient, nbformat
from jupyter_client.manager import AsyncKernelManager

path = sys.argv[1]
notebook = nbformat.read(path, as_version=4)
# Sockets in the folder of the notebook: tests that run at the same time share no ports.
kernel = AsyncKernelManager(transport="ipc", ip="k", connection_file="kernel.json")
nbclient.NotebookClient(notebook, km=kernel, timeout=None, startup_timeout=300).execute()
nbformat.write(notebook, path)
"""
_CELLS = [
    f"""
import pyarrow as pa, pyhudi
from pyhudi import HudiTable
name = {HOSTILE!r}
schema = pa.schema([("id", pa.int64()), ("note", pa.string()), ("city", pa.string())])
table = HudiTable.create("rides", schema=schema, record_key="id", partition_by="city", table_type="mor", name=name)
table.insert(pa.table({{"id": [1, 2], "note": [name, "b"], "city": ["oslo", "rome"]}}))
""",
    'table.upsert(pa.table({"id": [1, 2], "note": ["c", "d"], "city": ["oslo", "rome"]}))',
    "table",
    'table.scan(where=[("note", "==", name)])',
    "_ = table.services.compact(on_progress=pyhudi.show_progress)",
]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[list[dict[str, Any]]]:
    """What each cell shows, at the end of the notebook."""
    folder = tmp_path_factory.mktemp("n")
    cells = [
        {"cell_type": "code", "id": f"cell{at}", "source": code, "metadata": {}, "outputs": [], "execution_count": None}
        for at, code in enumerate(_CELLS)
    ]
    path = folder / "rides.ipynb"
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    folders = dict.fromkeys(("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"), str(folder))
    run = subprocess.run(
        [sys.executable, "-c", _RUN, path.name],
        cwd=folder, env=os.environ | folders, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return [cell["outputs"] for cell in json.loads(path.read_text())["cells"]]


def html_of(cell: list[dict[str, Any]]) -> str:
    (output,) = cell
    return "".join(output["data"]["text/html"])


def test_result_of_a_write_is_a_table_of_its_counts(outputs: list[list[dict[str, Any]]]) -> None:
    assert "<th>inserted</th><td>2</td>" in html_of(outputs[0])
    assert "<th>updated</th><td>2</td>" in html_of(outputs[1])


def test_table_and_scan_show_their_names_and_values_as_text(outputs: list[list[dict[str, Any]]]) -> None:
    for cell, words in ((outputs[2], "<th>record key</th><td>id</td>"), (outputs[3], "note")):
        shown = html_of(cell)
        assert words in shown
        assert_shows_only_text(shown)


def test_long_work_shows_one_bar_for_each_step_which_is_full_at_the_end(outputs: list[list[dict[str, Any]]]) -> None:
    bars = ["".join(output["data"]["text/html"]) for output in outputs[4]]
    assert bars != []
    steps = [bar.partition(": ")[0] for bar in bars]
    assert len(steps) == len(set(steps))
    assert [bar for bar in bars if 'width="100.00"' not in bar] == []
