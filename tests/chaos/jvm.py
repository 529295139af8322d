"""JVM Hudi reads and writes the table that a chaos run left."""

from __future__ import annotations

from collections.abc import Iterator

from tests.chaos.setting import Setting, rows_of
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle, OracleError, missing_oracle

_TABLE_VERSION = "hoodie.write.table.version"  # which 0.15.0 does not know
# It combines rows of one key by a column `ts`, which it wants even where the table has no ordering field.
_OPTIONS_OF_0_15 = {"hoodie.combine.before.upsert": "false"}


def problems_of_jvm_hudi(setting: Setting) -> tuple[str, ...]:
    """What it sees otherwise than we do, before and after it has written a row of its own."""
    release = RELEASE_OF_TABLE_VERSION[setting.kind.version]
    if (reason := missing_oracle(release)) is not None:
        return (f"JVM Hudi cannot be asked: {reason}",)
    oracle = Oracle(release)
    try:
        return tuple(_problems(setting, oracle))
    except OracleError as error:
        return (f"JVM Hudi failed: {error}",)
    finally:
        oracle.stop()


def _problems(setting: Setting, oracle: Oracle) -> Iterator[str]:
    yield from _differences(setting, oracle, "after the run")
    oracle.write(setting.path, rows_of("real-hudi", {("real-hudi/0", "once-0"): None}), write_options(setting))
    if "real-hudi/0" not in setting.open().scan(["id"]).to_arrow().column("id").to_pylist():
        yield "what JVM Hudi has written is not there"
    yield from _differences(setting, oracle, "after its own write")


def write_options(setting: Setting) -> dict[str, str]:
    """What JVM Hudi has to be told to upsert into the table of a run."""
    mor = setting.kind.table_type == "mor"
    return {
        "hoodie.table.name": setting.open().handle.state.config.name,
        "hoodie.datasource.write.table.type": "MERGE_ON_READ" if mor else "COPY_ON_WRITE",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "area",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.metadata.enable": "false",
        **(_OPTIONS_OF_0_15 if setting.kind.version == 6 else {_TABLE_VERSION: str(setting.kind.version)}),
    }


def _differences(setting: Setting, oracle: Oracle, when: str) -> Iterator[str]:
    columns = ["id", "area", "call", "list", "_hoodie_commit_time"]
    ours = sorted(map(repr, setting.open().scan(columns).to_arrow().to_pylist()))
    theirs = sorted(map(repr, oracle.read(setting.path).select(columns).to_pylist()))
    if ours != theirs:
        yield f"{when} JVM Hudi reads {len(theirs)} rows, we read {len(ours)}; {len(set(ours) ^ set(theirs))} differ"
