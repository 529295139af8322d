"""The S3 server of the tests is built once, however many processes ask for it, and is whole when it is found."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
SYSTEM_PATH = "/usr/bin:/bin"

BUILDS = """#!/bin/sh
echo build >> "$GOBIN/../builds"
sleep 0.3
echo server > "$GOBIN/minio"
chmod +x "$GOBIN/minio"
"""
FAILS = """#!/bin/sh
echo half > "$GOBIN/minio"
echo "no module for you" >&2
exit 1
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with the program that builds the server, and nothing built."""
    (tmp_path / "tools").mkdir()
    shutil.copy(REPOSITORY / "tools" / "minio.py", tmp_path / "tools")
    return tmp_path


def start(clone: Path, go: str | None) -> subprocess.Popen[str]:
    compilers = clone / "compilers"
    compilers.mkdir(exist_ok=True)
    if go is not None:
        (compilers / "go").write_text(go)
        (compilers / "go").chmod(0o755)
    return subprocess.Popen(
        [sys.executable, str(clone / "tools" / "minio.py")],
        env={"PATH": f"{compilers}:{SYSTEM_PATH}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.skipif(not Path("/bin/sh").exists(), reason="the stand-in for Go is a shell script")
def test_processes_that_need_the_server_at_once_build_it_once(clone: Path) -> None:
    both = [start(clone, BUILDS), start(clone, BUILDS)]
    answers = [process.communicate(timeout=60) for process in both]

    assert [process.returncode for process in both] == [0, 0], answers
    assert {out.strip() for out, _ in answers} == {str(clone / ".tools" / "bin" / "minio")}
    assert (clone / ".tools" / "builds").read_text() == "build\n"


@pytest.mark.skipif(not Path("/bin/sh").exists(), reason="the stand-in for Go is a shell script")
def test_build_that_fails_leaves_no_server_and_says_why(clone: Path) -> None:
    process = start(clone, FAILS)
    _, told = process.communicate(timeout=60)

    assert process.returncode == 1
    assert "no module for you" in told
    assert not (clone / ".tools" / "bin" / "minio").exists()


@pytest.mark.skipif(any(Path(folder, "go").exists() for folder in SYSTEM_PATH.split(":")), reason="Go is everywhere")
def test_machine_without_go_is_told_what_to_do(clone: Path) -> None:
    process = start(clone, None)
    _, told = process.communicate(timeout=60)

    assert process.returncode == 1
    assert "PYHUDI_MINIO" in told
