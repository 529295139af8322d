"""Findings of this machine: packages that are missing or too old, Java, and the Python of Spark's workers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata

from pyhudi.doctor.finding import Finding, Severity
from pyhudi.errors import JavaNotFoundError
from pyhudi.spark.java import find_java

_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*([^;]*)(?:;\s*(.*))?")
_EXTRA = re.compile(r"""extra\s*==\s*["']([\w-]+)["']""")
_SECONDS_OF_A_WORKER = 30


def machine_findings() -> Iterator[Finding]:
    """What this machine lacks. Cost: no request to a store; starts the Python of Spark's workers, if one is named."""
    yield from _packages()
    if _version_of("pyspark") is None:
        return
    try:
        find_java()
    except JavaNotFoundError as error:
        yield Finding(
            severity=Severity.WARNING,
            problem="no Java for Spark",
            path="java",
            detail=error.message,
            command=None,
        )
    yield from _workers()


def _packages() -> Iterator[Finding]:
    for requirement in metadata.requires("pyhudi") or ():
        parsed = _REQUIREMENT.match(requirement)
        if parsed is None:
            continue
        name, bounds, marker = parsed.groups()
        extra = _EXTRA.search(marker or "")
        found = _version_of(name)
        if found is None and extra is None:
            yield _package(Severity.ERROR, "package is missing", name, f"pip install '{name}{bounds}'")
        elif found is None and extra is not None:
            yield _package(
                Severity.NOTE, "optional package is missing", name, f"pip install 'pyhudi[{extra.group(1)}]' adds it"
            )
        elif found is not None and not _is_new_enough(found, bounds):
            detail = f"version {found} is installed, and {bounds.strip()} is needed"
            yield _package(Severity.ERROR if extra is None else Severity.WARNING, "package is too old", name, detail)


def _package(severity: Severity, problem: str, name: str, detail: str) -> Finding:
    return Finding(severity=severity, problem=problem, path=name, detail=detail)


def _version_of(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _is_new_enough(version: str, bounds: str) -> bool:
    """Whether a version is not below the lower bound that a requirement has."""
    lowest = re.search(r">=\s*([\d.]+)", bounds)
    return lowest is None or _numbers(version) >= _numbers(lowest.group(1))


def _numbers(version: str) -> tuple[int, ...]:
    begin = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, begin.group().split("."))) if begin else ()


def _workers() -> Iterator[Finding]:
    """The Python that Spark starts for tasks, where a variable names another one than this."""
    named = os.environ.get("PYSPARK_PYTHON")
    if named is None:
        return
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    code = "import sys, pyhudi; print('%d.%d' % sys.version_info[:2])"
    try:
        run = subprocess.run(  # noqa: S603 - the program that Spark would start
            [named, "-c", code], capture_output=True, text=True, check=False, timeout=_SECONDS_OF_A_WORKER
        )
        text = run.stdout.strip() if run.returncode == 0 else "has no pyhudi"
    except (OSError, subprocess.TimeoutExpired):
        text = "cannot be started"
    if text != own:
        yield Finding(
            severity=Severity.ERROR,
            problem="Spark's workers have another Python",
            path=f"PYSPARK_PYTHON={named}",
            detail=f"it {text if text[0].isalpha() else f'has version {text}'}; this process has {own}",
        )
