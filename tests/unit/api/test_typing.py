"""What the type checker of a user makes of the public face: right calls pass, wrong ones do not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyhudi

PROGRAM = """
from collections.abc import Iterator

import pyhudi


class Rows:
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        raise NotImplementedError


options: pyhudi.HudiOptions = {"hoodie.index.type": "BLOOM", "hoodie.upsert.shuffle.parallelism": 4}
table = pyhudi.HudiTable.for_path("/tmp/trips", hudi_options={"fs.s3a.access.key": "k"})

result: pyhudi.WriteResult = table.upsert(Rows(), hudi_options=options)
table.delete([1, 2])
table.delete_partition("city=oslo")
table.upsert(Rows(), batch_idd="x")  # type: ignore[call-arg]
table.upsert(5)  # type: ignore[arg-type]
table.upsert(Rows(), hudi_options=["x"])  # type: ignore[arg-type]
table.to_arrow()  # type: ignore[attr-defined]

scan: pyhudi.Scan = table.scan(columns=["id"], where=[("id", ">", 1)], as_of=result.instant)
count: int = table.changes(begin=result.completion_time).count()
text: str = scan.count()  # type: ignore[assignment]
explained: pyhudi.ScanExplanation = scan.explain()
partitions: tuple[str, ...] = explained.partitions_left_out
table.scan(column=["id"])  # type: ignore[call-arg]

detail: pyhudi.TableDetail = table.inspect.detail()
detail.version = 6  # type: ignore[misc]
instant: str | None = table.services.schedule("log_compaction")
table.services.schedule("vacuum")  # type: ignore[arg-type]
outcome: pyhudi.Outcome = table.recovery.outcome_of(result.instant)
undone: tuple[pyhudi.RolledBack, ...] = table.recovery.roll_back_failed_writes()
saved: pyhudi.WriteResult | None = pyhudi.save(Rows(), "/tmp/trips", hudi_options={}, mode="ignore")
pyhudi.nothing  # type: ignore[attr-defined]


def results(tables: list[pyhudi.HudiTable]) -> Iterator[pyhudi.WriteResult | None]:
    for table in tables:
        yield table.inspect.last_write()
"""


def test_type_checker_of_a_user_accepts_right_calls_and_refuses_wrong_ones(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    package = Path(pyhudi.__file__).parent
    options = ["--strict", "--follow-imports=silent", "--config-file=", f"--cache-dir={tmp_path}"]

    run = subprocess.run(
        [sys.executable, "-m", "mypy", *options, program],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == 0, run.stdout + run.stderr
    assert (package / "py.typed").exists(), "type checkers pass over the annotations of a package without it"
