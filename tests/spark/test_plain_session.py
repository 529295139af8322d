"""`format("hudi")` without pyhudi in sight: PySpark finds the package `pyspark_hudi` by its name."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from tests.support.programs import told_by

import pyhudi
from pyhudi.sql.session import prepare_process

pytest.importorskip("pyspark.sql.datasource", reason="Python data sources need PySpark 4.0")

PROGRAM = Path(__file__).with_name("plain_session_program.py")
PROGRAM_SECONDS_MAX = 300
KEY = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}


@pytest.mark.timeout(PROGRAM_SECONDS_MAX + 30)
def test_session_that_was_not_enabled_reads_and_says_what_writing_needs(tmp_path: Path) -> None:
    table, elsewhere = tmp_path / "t", tmp_path / "elsewhere"
    pyhudi.save(pa.table({"id": [1, 2, 3]}), str(table), hudi_options=KEY)
    prepare_process()

    found = told_by(PROGRAM, str(table), str(elsewhere), folder=tmp_path, seconds_max=PROGRAM_SECONDS_MAX)

    refusal = found.pop("written")
    assert "UnsupportedFeatureError" in refusal
    assert "pyhudi.enable(spark)" in refusal
    assert not elsewhere.exists()
    same = [1, 2, 3]
    assert found == {"read": same, "sql": same, "imported": False, "by package": same}


def test_job_that_reads_no_hudi_table_loads_no_part_of_pyhudi() -> None:
    program = "import pyspark_hudi, sys; assert not {'pyhudi', 'pyarrow'} & set(sys.modules)"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
