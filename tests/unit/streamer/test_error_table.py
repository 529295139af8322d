"""Records that cannot become rows are in the error table, each once, whatever happens to the process."""

from __future__ import annotations

import itertools
import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.ingestions import FIRST_MS, Landing, ids_in, ingestion, run_until_idle, settings
from tests.support.tables import LATER_MS, StepClock, environment, open_table

from pyhudi.errors import ConfigError, RecordKeyError, SourceError, UnavailableError, UnsupportedFeatureError
from pyhudi.storage.memory import MemoryStorage
from pyhudi.storage.protocol import Storage
from pyhudi.streamer.error_table import error_table_of
from pyhudi.streamer.ingest import Ingestion, ingest
from pyhudi.streamer.settings import Settings
from pyhudi.testing.faults import FaultStorage, SimulatedCrash, at_effect

ERRORS = {"hoodie.errortable.enable": "true", "hoodie.errortable.base.path": "memory://t/errors"}
TYPES = {"hoodie.errortable.validate.targetschema.enable": "true"}


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    return Landing(tmp_path / "landing")


def with_errors(given: Settings, table: Storage, errors: Storage, **other: Any) -> Ingestion:
    """A streamer whose error table is in a store of the test."""
    made = ingestion(given, table, **other)
    assert made.errors is not None
    return replace(made, errors=replace(made.errors, storage=errors))


def errors_in(storage: Storage) -> list[dict[str, Any]]:
    names = ["target", "source", "position", "reason", "message", "_corrupt_record"]
    rows = open_table(storage).scan(names).to_arrow().select(names).to_pylist()
    return sorted(rows, key=lambda row: (row["source"], int(row["position"])))


def test_lines_that_are_no_objects_are_in_the_error_table_and_the_others_in_the_table(landing: Landing):
    landing.put_text("a.json", '{"id": 1}\n\n{not json\n{"id": 2}\n[3]\n')
    table, errors = MemoryStorage(), MemoryStorage()
    done = ingest(with_errors(settings(landing, ERRORS), table, errors))
    assert done is not None
    assert done.failed == 2
    assert ids_in(table) == [1, 2]
    found = errors_in(errors)
    assert [(row["position"], row["_corrupt_record"]) for row in found] == [("3", b"{not json"), ("5", b"[3]")]
    assert {row["source"] for row in found} == {f"file:{landing.folder}/a.json"}
    assert {row["target"] for row in found} == {"memory://t/table"}
    assert {row["reason"] for row in found} == {"JSON_ROW_DESERIALIZATION_FAILURE"}
    assert "it is not" in found[0]["message"]
    assert open_table(table).schema.names == ["id"]


def test_rows_without_a_record_key_are_in_the_error_table(landing: Landing):
    landing.put_text("a.json", '{"id": "x"}\n{"id": null, "note": "a"}\n{"id": ""}\n{"note": "b"}')
    table, errors = MemoryStorage(), MemoryStorage()
    ingest(with_errors(settings(landing, ERRORS), table, errors))
    assert ids_in(table) == ["x"]
    found = errors_in(errors)
    assert [row["_corrupt_record"] for row in found] == [b'{"id": null, "note": "a"}', b'{"id": ""}', b'{"note": "b"}']
    assert {row["reason"] for row in found} == {"RECORD_CREATION"}


def test_record_without_a_value_is_a_row_without_a_key_whatever_is_read_with_it(landing: Landing):
    landing.put_text("a.json", '{"id": 1}\n{bad\n{"id": null}\n{}')
    table, errors = MemoryStorage(), MemoryStorage()
    ingest(with_errors(settings(landing, ERRORS), table, errors))
    assert [row["reason"] for row in errors_in(errors)] == [
        "JSON_ROW_DESERIALIZATION_FAILURE",
        "RECORD_CREATION",
        "RECORD_CREATION",
    ]


def test_batch_whose_rows_all_lack_the_key_column_advances(landing: Landing):
    landing.put_text("a.json", '{"id": 1}')
    table, errors = MemoryStorage(), MemoryStorage()
    ingest(with_errors(settings(landing, ERRORS), table, errors))
    landing.put_text("b.json", '{"note": "b"}', ms=FIRST_MS + 1)
    assert run_until_idle(with_errors(settings(landing, ERRORS), table, errors)) == 1
    assert ids_in(table) == [1]
    assert [row["_corrupt_record"] for row in errors_in(errors)] == [b'{"note": "b"}']


def test_rows_of_parquet_without_a_key_are_kept_as_json(landing: Landing):
    landing.folder.mkdir()
    pq.write_table(pa.table({"id": [1, None, 3], "note": ["a", "b", None]}), landing.folder / "a.parquet")
    table, errors = MemoryStorage(), MemoryStorage()
    ingest(with_errors(settings(landing, ERRORS, source_class="ParquetDFSSource"), table, errors))
    assert ids_in(table) == [1, 3]
    (found,) = errors_in(errors)
    assert (found["position"], json.loads(found["_corrupt_record"])) == ("2", {"id": None, "note": "b"})


def test_null_in_a_column_that_cannot_be_null_is_in_the_error_table(landing: Landing):
    table, errors = MemoryStorage(), MemoryStorage()
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("n", pa.int64(), nullable=False)])
    landing.folder.mkdir()
    pq.write_table(pa.table({"id": [1], "n": [1]}, schema=schema), landing.folder / "a.parquet")
    given = settings(landing, ERRORS, source_class="ParquetDFSSource")
    ingest(with_errors(given, table, errors))
    pq.write_table(pa.table({"id": [2, 3], "n": [None, 3]}), landing.folder / "b.parquet")
    ingest(with_errors(given, table, errors))
    assert ids_in(table) == [1, 3]
    assert [row["message"] for row in errors_in(errors)] == ["column n is null, and cannot be"]


def test_value_of_another_type_is_in_the_error_table_where_types_are_checked(landing: Landing):
    landing.put_text("a.json", '{"id": 1, "n": 1}')
    table, errors = MemoryStorage(), MemoryStorage()
    ingest(with_errors(settings(landing, ERRORS), table, errors))
    landing.put_text("b.json", '{"id": 2, "n": "many"}\n{"id": 3, "n": 3}', ms=FIRST_MS + 1)
    run_until_idle(with_errors(settings(landing, {**ERRORS, **TYPES}), table, errors))
    assert ids_in(table) == [1, 3]
    assert [row["_corrupt_record"] for row in errors_in(errors)] == [b'{"id": 2, "n": "many"}']


def test_value_that_the_given_schema_does_not_take_is_in_the_error_table(landing: Landing):
    landing.put_text("a.json", '{"id": 1}\n{"id": "one"}')
    table, errors = MemoryStorage(), MemoryStorage()
    ingest(with_errors(settings(landing, ERRORS, schema=pa.schema([("id", pa.int64())])), table, errors))
    assert ids_in(table) == [1]
    assert [row["position"] for row in errors_in(errors)] == ["2"]


def test_killed_at_any_effect_each_record_is_in_the_table_or_the_error_table_once(landing: Landing):
    landing.put_text("a.json", '{"id": 1}\n{bad 1', ms=FIRST_MS)
    landing.put_text("b.json", '{"id": 2}\n{bad 2\n{"note": "no key"}', ms=FIRST_MS + 1)
    narrow, wide = settings(landing, ERRORS, source_limit=1), settings(landing, ERRORS)
    for number in itertools.count(1, 2):
        table, errors = MemoryStorage(), MemoryStorage()
        hook = at_effect(number, SimulatedCrash())
        dying = with_errors(wide, FaultStorage(table, before=hook), FaultStorage(errors, before=hook))
        died = True
        with suppress(SimulatedCrash):
            ingest(dying)
            died = False
        # The next run reads other batches: failed records that the dead one wrote are found again by their places.
        run_until_idle(with_errors(narrow, table, errors, env=environment(StepClock(LATER_MS))))
        assert ids_in(table) == [1, 2], f"effect {number}"
        assert [row["_corrupt_record"] for row in errors_in(errors)] == [
            b"{bad 1",
            b"{bad 2",
            b'{"note": "no key"}',
        ], f"effect {number}"
        if not died:
            break
    assert number > 20


def test_failed_records_are_in_the_error_table_before_the_commit_of_the_batch(landing: Landing):
    landing.put_text("a.json", '{"id": 1}\n{bad')
    table, errors = MemoryStorage(), MemoryStorage()
    broken = FaultStorage(table, before=at_effect(1, UnavailableError("no answer")))
    with pytest.raises(UnavailableError):
        ingest(with_errors(settings(landing, ERRORS), broken, errors))
    assert len(errors_in(errors)) == 1


def test_error_table_that_cannot_be_written_stops_the_batch(landing: Landing):
    landing.put_text("a.json", '{"id": 1}\n{bad')
    table, inner = MemoryStorage(), MemoryStorage()
    errors = FaultStorage(inner, before=at_effect(1, UnavailableError("no answer")))
    with pytest.raises(UnavailableError):
        ingest(with_errors(settings(landing, ERRORS), table, errors))
    assert table.list_recursive("") == ()


def test_error_table_that_cannot_be_written_is_logged_where_the_option_says_so(
    landing: Landing, caplog: pytest.LogCaptureFixture
):
    landing.put_text("a.json", '{"id": 1}\n{bad')
    table = MemoryStorage()
    errors = FaultStorage(MemoryStorage(), before=at_effect(1, UnavailableError("no answer")))
    given = settings(landing, {**ERRORS, "hoodie.errortable.write.failure.strategy": "LOG_ERROR"})
    ingest(with_errors(given, table, errors))
    assert ids_in(table) == [1]
    assert "1 records that failed are lost" in caplog.text


def test_file_that_is_read_again_from_the_begin_has_its_errors_once(landing: Landing):
    landing.put_text("a.json", '{"id": 1}\n{bad')
    table, errors = MemoryStorage(), MemoryStorage()
    ingest(with_errors(settings(landing, ERRORS), table, errors))
    ingest(with_errors(settings(landing, ERRORS, ignore_checkpoint="once", op="UPSERT"), table, errors))
    assert len(errors_in(errors)) == 1
    landing.put_text("a.json", '{"id": 1}\n{bad', ms=FIRST_MS + 1)  # another file
    run_until_idle(with_errors(settings(landing, ERRORS, op="UPSERT"), table, errors))
    assert len(errors_in(errors)) == 2


def test_batch_without_failed_records_does_not_touch_the_error_table(landing: Landing):
    landing.put("a", [1])
    table, errors = MemoryStorage(), FaultStorage(MemoryStorage())
    ingest(with_errors(settings(landing, ERRORS), table, errors))
    assert errors.operations == []


def test_transformer_keeps_rows_with_their_records_unless_it_drops_the_column(landing: Landing):
    landing.put_text("a.json", '{"id": 1}\n{"id": null, "note": "x"}')
    table, errors = MemoryStorage(), MemoryStorage()
    ingest(with_errors(settings(landing, ERRORS, transformer_class=lambda rows: rows), table, errors))
    assert ids_in(table) == [1]
    assert len(errors_in(errors)) == 1
    given = settings(landing, ERRORS, transformer_class=lambda rows: rows.select(["id"]))
    with pytest.raises(RecordKeyError):
        ingest(with_errors(given, MemoryStorage(), MemoryStorage()))


def test_rows_without_a_key_stop_the_run_where_they_are_not_checked(landing: Landing):
    landing.put_text("a.json", '{"id": 1}\n{"id": null}')
    given = settings(landing, {**ERRORS, "hoodie.errortable.validate.recordcreation.enable": "false"})
    with pytest.raises(RecordKeyError):
        ingest(with_errors(given, MemoryStorage(), MemoryStorage()))


def test_first_batch_of_failed_records_only_needs_columns(landing: Landing):
    landing.put_text("a.json", "{bad")
    with pytest.raises(ConfigError, match="give them as schema"):
        ingest(with_errors(settings(landing, ERRORS), MemoryStorage(), MemoryStorage()))
    table, errors = MemoryStorage(), MemoryStorage()
    given = settings(landing, ERRORS, schema=pa.schema([("id", pa.int64())]))
    assert run_until_idle(with_errors(given, table, errors)) == 1
    assert ids_in(table) == []
    assert len(errors_in(errors)) == 1


def test_many_failed_records_are_all_named(landing: Landing):
    lines = [json.dumps({"id": number}) if number % 3 else f"{{bad {number}" for number in range(300)]
    landing.put_text("a.json", "\n".join(lines))
    table, errors = MemoryStorage(), MemoryStorage()
    ingest(with_errors(settings(landing, ERRORS), table, errors))
    assert ids_in(table) == [number for number in range(300) if number % 3]
    assert [row["position"] for row in errors_in(errors)] == [str(number + 1) for number in range(0, 300, 3)]


def test_without_an_error_table_the_first_bad_line_stops_the_run(landing: Landing):
    landing.put_text("a.json", '{"id": 1}\n{bad')
    with pytest.raises(SourceError):
        ingest(ingestion(settings(landing), MemoryStorage()))


def test_source_without_records_that_fail_alone_has_no_error_table(landing: Landing):
    landing.put("a", [1])
    storage = MemoryStorage()
    ingest(ingestion(settings(landing), storage))
    given = settings(landing, ERRORS)
    streamer = with_errors(given, MemoryStorage(), MemoryStorage())

    class Plain:
        def pull(self, after: Any, *, limit: int | None) -> Any:
            found = streamer.source.pull(after, limit=limit)
            assert found is not None
            return replace(found, read_apart=None)

    with pytest.raises(UnsupportedFeatureError, match="error tables are for topics and files"):
        ingest(replace(streamer, source=Plain()))


@pytest.mark.parametrize("spelled", ["table", "file:{}/table", "{}/other/../table", "table/errors", "."])
def test_error_table_in_its_target_is_refused_however_its_folder_is_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spelled: str
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="another folder"):
        error_table_of(f"{tmp_path}/table", {**ERRORS, "hoodie.errortable.base.path": spelled.format(tmp_path)})


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"hoodie.errortable.enable": "true"}, ConfigError),
        ({**ERRORS, "hoodie.errortable.base.path": "memory://t/table"}, ConfigError),
        ({**ERRORS, "hoodie.errortable.base.path": "memory://t/table/errors"}, ConfigError),
        ({**ERRORS, "hoodie.errortable.base.path": "memory://t"}, ConfigError),
        ({**ERRORS, "hoodie.errortable.write.class": "org.example.Errors"}, UnsupportedFeatureError),
        ({**ERRORS, "hoodie.errortable.write.failure.strategy": "HOPE"}, ConfigError),
    ],
)
def test_wrong_options_of_an_error_table_are_refused(landing: Landing, options: dict[str, str], error: type[Exception]):
    with pytest.raises(error):
        ingestion(settings(landing, options), MemoryStorage())
