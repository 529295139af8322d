"""Real tables, some files of which were edited by somebody who means harm: typed errors, and nothing outside touched.

Invariant K9 of docs/reliability.md: nothing outside of the base path is ever touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from tests.security.hostile_paths import CANARY, NASTY, is_among_metadata, leads_out
from tests.support.tables import MOR, new_table, open_table, rows

from pyhudi.errors import CorruptDataError, HudiError, UnsafePathError
from pyhudi.format.markers import marker_folder
from pyhudi.format.metadata.commit import CommitMetadata, WriteStat, encode_commit_metadata
from pyhudi.format.metadata.compaction import CompactionOperation, CompactionPlan, encode_compaction_plan
from pyhudi.format.metadata.rollback import RollbackPlan, RollbackRequest, encode_rollback_plan
from pyhudi.format.timeline.instant import Action, Instant, InstantState, InstantTime
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.protocol import Storage
from pyhudi.table.commits import load_commit_metadata
from pyhudi.table.state import load_table
from pyhudi.table.timeline import instant_path
from pyhudi.testing.faults import FaultStorage

POISON = [path for path in NASTY if path != "\ud800"]
"""Half a surrogate pair cannot be in an Avro file."""
ROWS = {(1, "oslo", 1, "a"), (2, "rome", 1, "b")}
WHEN = InstantTime("29990101000000000")
Use = Callable[[Storage], object]


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder beside the table with files that look like data of the table, so that a careless delete takes them."""
    folder = tmp_path / CANARY
    (folder / "timeline").mkdir(parents=True)
    (folder / "precious").write_bytes(b"precious")
    (folder / f"f-0_0-1-0_{WHEN}.parquet").write_bytes(b"precious")
    (folder / "timeline" / f"{WHEN}.commit.requested").write_bytes(b"precious")
    return folder


def names_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(params=[6, 9], ids=["version 6", "version 9"])
def table(request: pytest.FixtureRequest, tmp_path: Path, outside: Path) -> Iterator[FaultStorage]:
    """A merge-on-read table whose calls are written down; at the end nothing outside has changed."""
    before = names_below(outside)
    storage = FaultStorage(LocalStorage(tmp_path / "table"))
    new_table(storage, version=request.param, **MOR).upsert(rows(*ROWS))
    yield storage
    assert names_below(outside) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [CANARY, "table"]
    assert not [operation for operation in storage.operations if leads_out(operation.path)]


def use_of(storage: Storage) -> dict[str, Callable[[], object]]:
    """What a user does with a table, in an order in which nothing changes before it must."""
    return {
        "read": lambda: open_table(storage).scan().to_arrow(),
        "read changes": lambda: open_table(storage).changes().to_arrow(),
        "look at": lambda: (open_table(storage).inspect.history(), open_table(storage).inspect.detail()),
        "recover": lambda: open_table(storage).recovery.roll_back_failed_writes(eager=True),
        "compact": lambda: open_table(storage).services.compact().num_rows,
        "write": lambda: open_table(storage).upsert(rows((1, "oslo", 9, "new"), (3, "bern", 1, "new"))),
        "delete a partition": lambda: open_table(storage).delete_partition("*"),
    }


def outcomes(storage: Storage) -> dict[str, HudiError | None]:
    """How each of these ended; an error that is not ours ends the test."""
    found: dict[str, HudiError | None] = {}
    for name, action in use_of(storage).items():
        try:
            action()
        except HudiError as error:
            found[name] = error
        else:
            found[name] = None
    return found


# -- commits ----------------------------------------------------------------------------------------------------------


def rewritten(storage: Storage, change: Callable[[CommitMetadata], CommitMetadata]) -> tuple[str, bytes]:
    """Edit the first commit, which wrote rows; its path, and what it was."""
    state = load_table(storage)
    instant = state.timeline.completed_writes[0]
    metadata = change(load_commit_metadata(storage, instant, state.version))
    path = instant_path(instant, state.version)
    content = storage.read(path)
    storage.put(path, encode_commit_metadata(metadata, state.version))
    return path, content


def with_stat(**changes: Any) -> Callable[[CommitMetadata], CommitMetadata]:
    def change(metadata: CommitMetadata) -> CommitMetadata:
        partition, stats = next(iter(metadata.stats_by_partition.items()))
        poisoned: dict[str, tuple[WriteStat, ...]] = {
            **metadata.stats_by_partition,
            partition: (replace(stats[0], **changes), *stats[1:]),
        }
        return replace(metadata, stats_by_partition=poisoned)

    return change


def with_partition(path: str) -> Callable[[CommitMetadata], CommitMetadata]:
    def change(metadata: CommitMetadata) -> CommitMetadata:
        stats = next(iter(metadata.stats_by_partition.values()))
        return replace(metadata, stats_by_partition={**metadata.stats_by_partition, path: stats})

    return change


@pytest.mark.parametrize("path", POISON)
def test_commit_that_names_a_path_elsewhere_is_a_typed_error_to_whoever_needs_it(
    table: FaultStorage, path: str
) -> None:
    for change in (with_partition(path), with_stat(path=f"{path}/x.parquet"), with_stat(partition_path=path)):
        file, content = rewritten(table, change)
        error = outcomes(table)["look at"]
        assert isinstance(error, UnsafePathError)
        assert error.context["path"] == file
        table.put(file, content)


# -- plans ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", POISON)
def test_compaction_plan_that_names_a_path_elsewhere_stops_before_anything_changes(
    table: FaultStorage, path: str
) -> None:
    state = load_table(table)
    instant = Instant(WHEN, Action.COMPACTION, InstantState.REQUESTED)
    operation = CompactionOperation(
        file_id="f-0", partition_path=path, base_instant_time="1", delta_files=("." + f"f-0_{WHEN}.log.1_0-1-0",)
    )
    table.put_if_absent(
        instant_path(instant, state.version), encode_compaction_plan(CompactionPlan(operations=(operation,)))
    )
    before = table.list_recursive("")

    found = outcomes(table)

    assert {type(found[name]) for name in ("read", "compact", "write")} == {UnsafePathError}
    assert {info.path for info in before} <= {info.path for info in table.list_recursive("")}


def rollback_plans(storage: Storage, path: str, outside: Path) -> dict[str, RollbackPlan]:
    """Plans that mean to delete something elsewhere, after something that is theirs."""
    mine = RollbackRequest(
        partition_path="city=oslo",
        file_id="f-0",
        latest_base_instant=WHEN,
        files_to_be_deleted=(f"{storage.uri}/city=oslo/f-0_0-1-0_{WHEN}.parquet",),
    )
    poisoned = {
        "file": replace(mine, files_to_be_deleted=(f"{storage.uri}/{path}/f-0_0-1-0_{WHEN}.parquet",)),
        "absolute file": replace(mine, files_to_be_deleted=(f"file:{outside}/f-0_0-1-0_{WHEN}.parquet",)),
        "sibling of the table": replace(mine, files_to_be_deleted=(f"{storage.uri}{path}/f-0_0-1-0_{WHEN}.parquet",)),
        "partition": replace(mine, partition_path=path, log_blocks_to_be_deleted={"x": 1}),
        "group": replace(mine, file_id=f"{path}/f", log_blocks_to_be_deleted={"x": 1}),
    }
    return {
        name: RollbackPlan(instant_time=WHEN, action="commit", requests=(mine, request))
        for name, request in poisoned.items()
        if name not in {"file", "sibling of the table"} or _is_elsewhere(storage, request.files_to_be_deleted[0])
    }


def _is_elsewhere(storage: Storage, uri: str) -> bool:
    """Whether a file is none of the table's data. A URI may be written in several ways: `a//b` is `a/b`."""
    base, path = storage.uri.removeprefix("file:"), PurePosixPath(uri.removeprefix("file:"))
    relative = str(path).removeprefix(f"{base}/")
    return relative == str(path) or leads_out(relative) or is_among_metadata(relative) or not relative.isprintable()


@pytest.mark.parametrize("path", POISON)
def test_rollback_plan_that_names_a_path_elsewhere_deletes_nothing_at_all(
    table: FaultStorage, outside: Path, path: str
) -> None:
    state = load_table(table)
    table.put(f"city=oslo/f-0_0-1-0_{WHEN}.parquet", b"left over")
    instant = Instant(InstantTime("29990101000000001"), Action.ROLLBACK, InstantState.REQUESTED)
    for plan in rollback_plans(table, path, outside).values():
        table.put(instant_path(instant, state.version), encode_rollback_plan(plan))
        before = {info.path for info in table.list_recursive("")}
        for name in ("recover", "write"):
            with pytest.raises(UnsafePathError):
                use_of(table)[name]()
        assert {info.path for info in table.list_recursive("")} >= before


@pytest.mark.parametrize("instant_time", ["..", "../../x", "", "a/b", "x\x00y"])
def test_rollback_plan_for_an_instant_that_is_a_path_is_refused(table: FaultStorage, instant_time: str) -> None:
    state = load_table(table)
    instant = Instant(InstantTime("29990101000000001"), Action.ROLLBACK, InstantState.REQUESTED)
    plan = RollbackPlan(instant_time=instant_time, action="commit")
    table.put(instant_path(instant, state.version), encode_rollback_plan(plan))
    with pytest.raises(UnsafePathError):
        open_table(table).recovery.roll_back_failed_writes(eager=True)


# -- what dead writers seem to have left ------------------------------------------------------------------------------


@pytest.mark.parametrize("path", POISON)
def test_markers_that_name_a_path_elsewhere_do_not_stop_a_rollback_and_mislead_none(
    table: FaultStorage, path: str
) -> None:
    state = load_table(table)
    dead = Instant(WHEN, Action.DELTA_COMMIT, InstantState.REQUESTED)
    table.put_if_absent(instant_path(dead, state.version), b"")
    line = f"{path}/f-0_0-1-0_{WHEN}.parquet.marker.CREATE\n"
    table.put(f"{marker_folder(WHEN)}/MARKERS0", line.encode())
    table.put(f"city=oslo/f-0_0-1-0_{WHEN}.parquet", b"left over")

    (done,) = open_table(table).recovery.roll_back_failed_writes(eager=True)

    assert done.files_deleted == 1
    assert set(outcomes(table).values()) == {None}


def test_heartbeat_with_an_unsafe_name_is_ignored(table: FaultStorage, tmp_path: Path) -> None:
    folder = tmp_path / "table" / ".hoodie" / ".heartbeat"
    folder.mkdir(exist_ok=True)
    for name in ("..\\..\\x", "a\nb", "\x7f", "%2e%2e", "..."):
        (folder / name).write_bytes(b"")
    assert set(outcomes(table).values()) == {None}


# -- the archive ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("table", [9], indirect=True, ids=["version 9"])  # the archive of version 6 names no files
@pytest.mark.parametrize("path", [f"../../../{CANARY}/precious", "/etc/passwd", ".hoodie/x"])
def test_archive_that_names_a_file_elsewhere_is_damage(table: FaultStorage, path: str) -> None:
    state = load_table(table)
    folder = state.version.history_folder
    table.put(f"{folder}/_version_", b"1")
    table.put(f"{folder}/manifest_1", f'{{"files":[{{"fileName":"{path}","fileLen":1}}]}}'.encode())
    with pytest.raises(CorruptDataError, match="not a history file"):
        open_table(table).recovery.outcome_of("20200101000000000")
    table.put(f"{folder}/_version_", b"../../x")
    with pytest.raises(CorruptDataError, match="does not contain a number"):
        open_table(table).recovery.outcome_of("20200101000000000")


# -- symbolic links ---------------------------------------------------------------------------------------------------

LINKS = (
    *(
        ".hoodie/timeline",
        ".hoodie/.temp",
        f".hoodie/.temp/{WHEN}",
        ".hoodie/.heartbeat",
        ".hoodie/.locks",
        ".hoodie/.aux",
    ),
    *(".hoodie/metadata", ".hoodie/hoodie.properties", ".hoodie/archived", "city=oslo", "city=bern", "city=bern/deep"),
    *("city=oslo/more", f"city=oslo/f-0_0-1-0_{WHEN}.parquet", ".hoodie/.locks/pyhudi_table.lock", ".hoodie"),
)


@pytest.mark.parametrize("link", LINKS)
def test_symlink_out_of_the_table_is_followed_by_no_operation(
    table: FaultStorage, tmp_path: Path, outside: Path, link: str
) -> None:
    place = tmp_path / "table" / link
    kept = tmp_path / "table" / "kept aside"
    dead = Instant(WHEN, Action.DELTA_COMMIT, InstantState.REQUESTED)
    table.put_if_absent(instant_path(dead, load_table(table).version), b"")
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists():
        place.rename(kept)
    is_file = link.endswith((".parquet", ".properties", ".lock"))
    place.symlink_to(outside / "precious" if is_file else outside)
    # A process that begins now: what this one has learned of folders would excuse it.
    fresh = FaultStorage(LocalStorage(tmp_path / "table"))

    found = outcomes(fresh)

    for error in found.values():
        assert error is None or isinstance(error, HudiError)
    assert place.is_symlink() or link.startswith(".hoodie/.temp/")
    is_looked_at = link not in (".hoodie/archived", ".hoodie/metadata")
    assert any(isinstance(error, UnsafePathError) for error in found.values()) or not is_looked_at
    place.unlink(missing_ok=True)
    assert not list(outside.rglob("*.lock"))
