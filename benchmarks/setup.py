"""Fetches what the benchmark needs: the oracle's Spark 3.5 and Hudi, Delta's and Iceberg's jars, and the group `bench`.

All of it goes into `.oracle/` and `.bench/`, apart from the environment that pyhudi is developed in. Where a jar cannot
be had, the script says so and the run leaves that peer out.
"""

from __future__ import annotations

import subprocess
import sys
import venv

from contestants import BENCH_PYTHON, GENERATOR, HOME, JARS, MAVEN_JARS, REPOSITORY, jar


def main() -> None:
    subprocess.run([sys.executable, REPOSITORY / "tools" / "oracle" / "setup.py"], check=True)
    if not GENERATOR.exists():
        print("bench: installing the group `bench` into .bench/venv", flush=True)
        venv.create(HOME / "venv", with_pip=True)
        install = [str(BENCH_PYTHON), "-m", "pip", "install", "--quiet"]
        subprocess.run([*install, "--upgrade", "pip>=25.1"], check=True)  # the first that knows groups
        subprocess.run([*install, "--group", f"{REPOSITORY / 'pyproject.toml'}:bench", str(REPOSITORY)], check=True)
    for name, coordinates in MAVEN_JARS.items():
        if not jar(name).exists():
            print(f"bench: fetching {coordinates}", flush=True)
            _fetch(coordinates)


def _fetch(coordinates: str) -> None:
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={JARS}"]
    try:
        subprocess.run(command, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        print(f"bench: could not fetch {coordinates}: {error}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
