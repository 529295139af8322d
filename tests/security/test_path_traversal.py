"""No path out of the table is opened, listed or deleted, whoever says so: values of rows, callers, metadata, markers.

See the guarantee on confinement in docs/reliability.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.security.hostile_paths import CANARY, CORPUS, NASTY, is_among_metadata, leads_out
from tests.support.tables import SCHEMA, new_table, open_table, rows

from pyhudi.errors import CorruptDataError, HudiError, InvalidRequestError, UnsafePathError
from pyhudi.format.file_names import parse_data_file
from pyhudi.format.keys.partition_paths import checked_segments
from pyhudi.format.markers import parse_marker_path, parse_markers_file
from pyhudi.format.metadata.commit import CommitMetadata, WriteStat, decode_commit_metadata, encode_commit_metadata
from pyhudi.format.metadata.compaction import (
    CompactionOperation,
    CompactionPlan,
    decode_compaction_plan,
    encode_compaction_plan,
)
from pyhudi.format.metadata.rollback import RollbackPlan, RollbackRequest, decode_rollback_plan, encode_rollback_plan
from pyhudi.format.metadata.write_operation import WriteOperation
from pyhudi.format.safe_paths import check_data_path, check_file_name, is_metadata_folder
from pyhudi.format.timeline.lsm_history import parse_manifest
from pyhudi.format.timeline.table_version import V6, V9
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.testing.faults import FaultStorage

SOURCE = ".hoodie/timeline/1.commit"
LOG = ".f-0_20260101000000000.log.1_0-1-0"
BASE = "f-0_0-1-0_20260101000000000.parquet"


def test_the_corpus_is_as_large_as_it_says() -> None:
    assert len(CORPUS) >= 2000
    assert sum(map(leads_out, CORPUS)) > 500
    assert set(NASTY) >= {path for path in NASTY if leads_out(path) or is_among_metadata(path)}


# -- the one decision -------------------------------------------------------------------------------------------------


def accepted(check: Callable[[str], object], texts: tuple[str, ...] = CORPUS) -> Iterator[str]:
    for text in texts:
        with suppress(UnsafePathError):
            check(text)
            yield text


def test_paths_that_are_accepted_lead_nowhere_else() -> None:
    found = list(accepted(lambda path: check_data_path(path, source=SOURCE)))

    assert not [path for path in found if leads_out(path) or is_among_metadata(path)]
    # It is no use to refuse everything: values that only look odd are legal.
    assert {"%2e%2e/canary", "$HOME", ".../canary", "a/*", "~/x", "city=a/CON"} <= set(found)


def test_names_that_are_accepted_are_names() -> None:
    for name in accepted(lambda name: check_file_name(name, source=SOURCE)):
        assert "/" not in name
        assert "\\" not in name
        assert not leads_out(name)


@pytest.mark.parametrize("name", [".hoodie", ".HOODIE", ".Hoodie", ".hoo\u200cdie", "\uff0ehoodie", "\u200b.hoodie"])
def test_every_spelling_of_the_metadata_folder_is_known(name: str) -> None:
    assert is_metadata_folder(name)
    for path in (name, f"{name}/timeline", f"a/{name}"):
        with pytest.raises(UnsafePathError, match="metadata"):
            check_data_path(path, source=SOURCE)


@pytest.mark.parametrize("name", ["hoodie", ".hoodie_partition_metadata", ".hoodies", ""])
def test_other_names_are_not_taken_for_the_metadata_folder(name: str) -> None:
    assert not is_metadata_folder(name)


@pytest.mark.parametrize("hive_style", [False, True])
@pytest.mark.parametrize("url_encode", [False, True])
def test_partition_values_that_are_accepted_lead_nowhere_else(hive_style: bool, url_encode: bool) -> None:
    for value in CORPUS:
        try:
            (segment,) = checked_segments("city", [value], is_first=True, hive_style=hive_style, url_encode=url_encode)
        except UnsafePathError:
            continue
        assert not leads_out(segment)
        assert not is_among_metadata(segment)
        assert max(len(part.encode()) for part in segment.split("/")) <= 255


# -- every store, every call ------------------------------------------------------------------------------------------


@pytest.fixture
def beside(tmp_path: Path) -> Path:
    """A folder beside the table that holds something precious."""
    folder = tmp_path / CANARY
    folder.mkdir()
    (folder / "precious").write_bytes(b"precious")
    return folder


def state_of(folder: Path) -> dict[str, str]:
    """What is in a folder, by name."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "folder"
        for path in sorted(folder.rglob("*"))
    }


def calls_of(storage: Storage, path: str) -> dict[str, Callable[[], object]]:
    return {
        "read": lambda: storage.read(path),
        "read_with_etag": lambda: storage.read_with_etag(path),
        "open_input": lambda: storage.open_input(path).close(),
        "info": lambda: storage.info(path),
        "list_folder": lambda: storage.list_folder(path),
        "list_names": lambda: storage.list_names(path),
        "list_recursive": lambda: storage.list_recursive(path),
        "put": lambda: storage.put(path, b"x"),
        "put_if_absent": lambda: storage.put_if_absent(path, b"x"),
        "put_if_match": lambda: storage.put_if_match(path, b"x", etag="1"),
        "open_output": lambda: storage.open_output(path, durable=False).close(),
        "delete": lambda: storage.delete(path),
        "delete_folder": lambda: storage.delete_folder(path),
    }


@pytest.mark.parametrize("operation", calls_of(MemoryStorage(), "x"))
@pytest.mark.parametrize("kind", ["local", "memory"])
def test_store_refuses_what_leads_out_before_it_touches_anything(
    kind: str, operation: str, tmp_path: Path, beside: Path
) -> None:
    storage: Storage = LocalStorage(tmp_path / "table") if kind == "local" else MemoryStorage()
    before = state_of(beside)
    for path in filter(leads_out, CORPUS):
        with pytest.raises(UnsafePathError):
            calls_of(storage, path)[operation]()
    assert not (tmp_path / "table").exists()
    assert state_of(beside) == before


def test_local_store_keeps_everything_that_it_accepts_below_its_root(tmp_path: Path, beside: Path) -> None:
    storage = LocalStorage(tmp_path / "table")
    written = 0
    for path in CORPUS:
        with suppress(HudiError):
            storage.put(f"{path}.x" if path.endswith("/") else path, b"x", durable=False)
            written += 1
    assert written > 500
    assert sorted(path.name for path in tmp_path.iterdir()) == [CANARY, "table"]
    assert state_of(beside) == {"precious": hashlib.sha256(b"precious").hexdigest()}


# -- what metadata say: decoded, it can only be harmless --------------------------------------------------------------

Decoder = Callable[[str], object]


def commit_with(version: Any, **changes: Any) -> Decoder:
    def decode(text: str) -> object:
        values = {name: value(text) for name, value in changes.items()}
        partition = values.pop("key", "p")
        replaced = values.pop("replaced", None)
        stat = WriteStat(**{"file_id": "f-0", "path": f"p/{BASE}", "partition_path": "p", **values})
        metadata = CommitMetadata(
            operation=WriteOperation.UPSERT, stats_by_partition={partition: (stat,)}, replaced_file_ids=replaced
        )
        return decode_commit_metadata(encode_commit_metadata(metadata, version), path=SOURCE)

    return decode


def plan_with(**changes: Callable[[str], Any]) -> Decoder:
    def decode(text: str) -> object:
        values = {name: value(text) for name, value in changes.items()}
        missing = values.pop("missing", None)
        operation = CompactionOperation(
            **{"file_id": "f-0", "partition_path": "p", "base_instant_time": "1", "delta_files": (LOG,), **values}
        )
        plan = CompactionPlan(operations=(operation,), missing_partitions=missing)
        return decode_compaction_plan(encode_compaction_plan(plan), path=SOURCE)

    return decode


def rollback_with(**changes: Callable[[str], Any]) -> Decoder:
    def decode(text: str) -> object:
        values = {name: value(text) for name, value in changes.items()}
        instant = values.pop("instant_time", "20260101000000000")
        request = RollbackRequest(**{"partition_path": "p", "file_id": "f-0", "latest_base_instant": "1", **values})
        plan = RollbackPlan(instant_time=instant, action="commit", requests=(request,))
        return decode_rollback_plan(encode_rollback_plan(plan), path=SOURCE)

    return decode


def same(text: str) -> str:
    return text


FIELDS: dict[str, Decoder] = {
    **{
        f"commit of version {version.number}: {name}": commit_with(version, **change)
        for version in (V6, V9)
        for name, change in {
            "path": {"path": lambda text: f"{text}/{BASE}"},
            "whole path": {"path": same},
            "partition path": {"partition_path": same},
            "partition": {"key": same},
            "file id": {"file_id": same},
            "change data": {"cdc_stats": lambda text: {text: 1}},
            "replaced partition": {"replaced": lambda text: {text: ("f-0",)}},
            "replaced group": {"replaced": lambda text: {"p": (text,)}},
        }.items()
    },
    "commit: previous base file": commit_with(V9, prev_base_file=same),
    "commit: log files": commit_with(V9, log_version=lambda _: 1, log_files=lambda text: (text,)),
    "commit: base file": commit_with(V9, log_version=lambda _: 1, base_file=same),
    "compaction: partition": plan_with(partition_path=same),
    "compaction: file id": plan_with(file_id=same, delta_files=lambda text: (LOG.replace("f-0", text),)),
    "compaction: log": plan_with(delta_files=lambda text: (f"{text}/{LOG}",)),
    "compaction: base file": plan_with(data_file=lambda text: f"{text}/{BASE}"),
    "compaction: partitions left out": plan_with(missing=lambda text: (text,)),
    "rollback: partition": rollback_with(partition_path=same),
    "rollback: file id": rollback_with(file_id=same),
    "rollback: base instant": rollback_with(latest_base_instant=same),
    "rollback: instant": rollback_with(instant_time=same),
    "markers file": lambda text: parse_markers_file(f"{text}/{BASE}.marker.CREATE\n".encode(), path=SOURCE),
    "manifest": lambda text: parse_manifest(f'{{"files":[{{"fileName":"{text}","fileLen":1}}]}}'.encode(), path=SOURCE),
}


WITH_THE_WHOLE_CORPUS = {
    "commit of version 6: partition",
    "compaction: partition",
    "rollback: partition",
    "markers file",
    "manifest",
}
"""One of each kind; the others get every fifth text, as they go through the same two functions."""


@pytest.mark.parametrize("field", FIELDS)
def test_metadata_that_lead_out_are_refused_and_name_their_file(field: str) -> None:
    refused = 0
    texts = CORPUS if field in WITH_THE_WHOLE_CORPUS else CORPUS[::5]
    for text in texts:
        try:
            value = FIELDS[field](text)
        except UnicodeEncodeError:
            continue  # half a surrogate pair cannot even be written
        except (UnsafePathError, CorruptDataError) as error:
            refused += error.context["path"] == SOURCE
            continue
        assert value is not None
        assert not leads_out(text)
        if "instant" not in field and "id" not in field and "group" not in field:
            assert not is_among_metadata(text)
    assert refused > len(texts) // 4
    assert refused >= sum(map(leads_out, texts)) - sum("\ud800" <= max(text, default="") <= "\udfff" for text in texts)


def test_marker_of_a_file_outside_the_table_is_ignored() -> None:
    for text in CORPUS:
        found = parse_marker_path(f".hoodie/.temp/1/{text}/{BASE}.marker.CREATE", "1")
        if found is not None:
            assert not leads_out(found)
            assert not is_among_metadata(found)


def test_data_files_have_no_folders_in_their_names() -> None:
    for text in CORPUS:
        name = parse_data_file(f"{text}_0-1-0_1.parquet")
        assert name is None or "/" not in name.file_id


# -- whole operations, on a disk with something precious beside the table ----------------------------------------------


@pytest.fixture
def recorder(tmp_path: Path, beside: Path) -> Iterator[FaultStorage]:
    """A table on local disk, all calls of which are written down, and nothing outside of which may change."""
    before = state_of(beside)
    storage = FaultStorage(LocalStorage(tmp_path / "table"))
    new_table(storage).upsert(rows((1, "oslo", 1, "a")))
    storage.operations.clear()
    yield storage
    for operation in storage.operations:
        assert not leads_out(operation.path), operation
        # Whole folders go only where nothing but our own temporary files is; never the table, never a partition.
        assert operation.name != "delete_folder" or operation.path.startswith(".hoodie/"), operation
    assert state_of(beside) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [CANARY, "table"]


def cities(storage: Storage) -> set[str | None]:
    return set(open_table(storage).scan(["city"]).to_arrow().column("city").to_pylist())


@pytest.mark.parametrize("value", [value for value in NASTY if value != "\ud800"])
def test_write_with_a_partition_value_that_leads_out_changes_nothing(recorder: FaultStorage, value: str) -> None:
    with suppress(UnsafePathError):
        # In hive style the name of the column stands before it, and makes some of these values harmless.
        open_table(recorder).upsert(rows((2, value, 1, "x")))
        assert cities(recorder) == {"oslo", value}
        return
    assert cities(recorder) == {"oslo"}


def test_all_partition_values_that_are_accepted_are_written_and_come_back(recorder: FaultStorage) -> None:
    values = []
    for value in CORPUS:
        with suppress(UnsafePathError):
            checked_segments("city", [value], is_first=True, hive_style=True, url_encode=False)
            values.append(value)
    chosen = values[::12]
    assert len(chosen) > 25
    columns = [range(2, len(chosen) + 2), chosen, [1] * len(chosen), ["x"] * len(chosen)]
    batch = pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)

    open_table(recorder).bulk_insert(batch)

    # An empty value is that of the null partition, but stays what it is in its row.
    assert cities(recorder) == {"oslo", *chosen}


@pytest.mark.parametrize("path", NASTY)
def test_partition_to_delete_that_leads_out_deletes_nothing(recorder: FaultStorage, path: str) -> None:
    with pytest.raises(InvalidRequestError):
        open_table(recorder).delete_partition(path)
    assert cities(recorder) == {"oslo"}


@pytest.mark.parametrize("path", CORPUS[::40])
def test_instant_that_is_a_path_is_no_instant(recorder: FaultStorage, path: str) -> None:
    with pytest.raises(InvalidRequestError):
        open_table(recorder).recovery.rollback(path)
