"""Write the golden tables with a history: cleaned, archived, clustered and savepointed by JVM Hudi.

`tests/golden/test_golden_history.py` asks them everything. Run it again only when a life changes or a release does:

    .venv/bin/python tools/oracle/setup.py
    .venv/bin/python tools/oracle/make_golden_history.py [release ...]

Each archive holds `table/`; `manifest.json` has the states that each table went through.
"""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from golden_archives import pack  # noqa: E402
from tests.interop.history_life import LIVES, live  # noqa: E402
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle  # noqa: E402

GOLDEN = REPOSITORY / "tests" / "golden" / "history"
MANIFEST = GOLDEN / "manifest.json"
WORKSHOP = Path("/tmp/golden-history")


def main() -> None:
    GOLDEN.mkdir(exist_ok=True)
    entries = {entry["name"]: entry for entry in json.loads(MANIFEST.read_text())} if MANIFEST.exists() else {}
    for table_version, release in RELEASE_OF_TABLE_VERSION.items():
        if sys.argv[1:] and release not in sys.argv[1:]:
            continue
        oracle = Oracle(release)
        for life in LIVES:
            name = f"v{table_version}-{life}"
            folder = WORKSHOP / name
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            history = live(oracle, folder / "table", life)
            archive = pack(folder, GOLDEN / f"{name}.tar.xz")
            print(f"{name}: {len(history.states)} states, {archive.stat().st_size / 1024:.0f} kB", flush=True)
            states = [asdict(state) for state in history.states]
            entries[name] = {"name": name, "archive": archive.name, "release": release, "states": states}
            lines = ",\n".join(json.dumps(entries[name]) for name in sorted(entries))
            MANIFEST.write_text(f"[\n{lines}\n]\n")
        oracle.stop()
    shutil.rmtree(WORKSHOP, ignore_errors=True)


if __name__ == "__main__":
    main()
