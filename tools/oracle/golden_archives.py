"""What the makers of golden tables share: questions as options of Spark's reader, and archives."""

from __future__ import annotations

import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read_options(question: Mapping[str, Any]) -> dict[str, str]:
    """A question of a manifest, in the options of Spark's reader."""
    match question["query"]:
        case "read_optimized":
            return {"hoodie.datasource.query.type": "read_optimized"}
        case "as_of":
            return {"as.of.instant": question["instant"]}
        case "changes":
            options = {
                "hoodie.datasource.query.type": "incremental",
                "hoodie.datasource.read.begin.instanttime": question["begin"],
            }
            end = {"hoodie.datasource.read.end.instanttime": question["end"]} if question["end"] else {}
            return {**options, **end}
        case _:
            return {}


def pack(folder: Path, archive: Path) -> Path:
    """Everything below the folder, empty folders too, in the order of the names and owned by nobody."""
    archive.unlink(missing_ok=True)
    with tarfile.open(archive, "w:xz", format=tarfile.PAX_FORMAT, preset=9) as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, arcname=str(path.relative_to(folder)), recursive=False, filter=_anonymous)
    return archive


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
