"""Fetches what the benchmark needs beyond `make interop`: Delta's and Iceberg's jars, and the extra `bench`.

Both go into `.bench/`, apart from the environment that pyhudi is developed in.
"""

from __future__ import annotations

import subprocess
import sys
import venv

from contestants import BENCH_PYTHON, GENERATOR, HOME, MAVEN_JARS, REPOSITORY


def main() -> None:
    if not GENERATOR.exists():
        print("making .bench/venv ...")
        venv.create(HOME / "venv", with_pip=True)
        subprocess.run([BENCH_PYTHON, "-m", "pip", "install", "--quiet", f"{REPOSITORY}[bench]"], check=True)
    for coordinates in MAVEN_JARS.values():
        _, artifact, version = coordinates.split(":")
        if not (HOME / "jars" / f"{artifact}-{version}.jar").exists():
            print(f"fetching {coordinates} ...")
            _fetch(coordinates)


def _fetch(coordinates: str) -> None:
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={HOME / 'jars'}"]
    try:
        subprocess.run(command, check=True)
    except FileNotFoundError:
        sys.exit(f"need Maven (`mvn`) to fetch {coordinates} into {HOME / 'jars'}; install it, or put the jar there")


if __name__ == "__main__":
    main()
