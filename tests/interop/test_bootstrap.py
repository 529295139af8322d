"""Bootstrapped tables: JVM Hudi and pyhudi read the same rows of skeletons and sources, and write on in turn."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tests.interop.compare import assert_same_rows
from tests.support.bootstraps import bootstrap as run_bootstrap
from tests.support.bootstraps import copy_city_b
from tests.support.oracle import RELEASE_OF_TABLE_VERSION, Oracle
from tests.support.sources import SOURCE_SCHEMA, parquet_source

import pyhudi
from pyhudi.storage.local import LocalStorage
from pyhudi.storage.memory import MemoryStorage
from pyhudi.tasks import bootstrap
from pyhudi.testing.faults import FaultStorage, SimulatedCrash, at_effect

OracleOf = Callable[[str], Oracle]
TYPES = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}


def hashes(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def bootstrapped_by_jvm_hudi(
    oracle: Oracle, source: Path, path: Path, version: int, table_type: str, *, selector: str | None = None, **more: str
) -> None:
    options = {"hoodie.metadata.enable": "false", "hoodie.datasource.write.hive_style_partitioning": "true", **more}
    if oracle.release != "0.15.0":
        options["hoodie.write.table.version"] = str(version)
    settings = ",".join(f"{key}={value}" for key, value in options.items())
    chosen = "" if selector is None else f" selector_class => '{selector}',"
    answer = oracle.sql(
        f"call run_bootstrap(table => '{path.name}', table_type => '{TYPES[table_type]}', bootstrap_path => '{source}',"
        f"{chosen}"
        f" base_path => '{path}', rowKey_field => 'id', partition_path_field => 'city',"
        f" key_generator_class => 'org.apache.hudi.keygen.SimpleKeyGenerator', options => '{settings}')"
    )
    assert answer == [{"status": "0"}]


def rows(keys: list[str], city: str, n: int) -> pa.Table:
    """Rows as those of the source, with the column that the source has in the names of its folders."""
    schema = pa.schema([*SOURCE_SCHEMA, ("city", pa.string())])
    return pa.Table.from_pylist(
        [{"id": key, "n": n, "x": 0.5, "ts": n, "when": None, "city": city} for key in keys], schema
    )


def jvm_options(path: Path, table_type: str) -> dict[str, str]:
    return {
        "hoodie.table.name": path.name,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.table.type": TYPES[table_type],
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.metadata.enable": "false",
        "hoodie.compact.inline": "false",
    }


@pytest.mark.parametrize("maker", ["JVM Hudi", "pyhudi"])
@pytest.mark.parametrize(
    ("version", "table_type"),
    [
        pytest.param(9, "cow", marks=pytest.mark.quick),
        (9, "mor"),
        (8, "mor"),
        (6, "cow"),
        pytest.param(6, "mor", marks=pytest.mark.thorough),
        pytest.param(8, "cow", marks=pytest.mark.thorough),
    ],
)
def test_bootstrapped_table_is_read_and_written_in_turn(
    version: int, table_type: str, maker: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, path = oracle_of(RELEASE_OF_TABLE_VERSION[version]), tmp_path / f"boot_{version}_{table_type}"
    source = parquet_source(tmp_path / "source")
    before = hashes(source)
    if maker == "pyhudi":
        pyhudi.HudiTable.bootstrap(source, path, record_key="id", table_type=table_type, table_version=version)
    else:
        bootstrapped_by_jvm_hudi(oracle, source, path, version, table_type)

    def check(hint: str, count: int) -> None:
        ours = pyhudi.HudiTable.for_path(path).scan().to_arrow()
        assert_same_rows(oracle.read(path), ours, hint=hint)
        assert ours.num_rows == count, hint

    table = pyhudi.HudiTable.for_path(path)
    check("bootstrapped", 20)
    table.upsert(pa.concat_tables([rows(["a01", "a99"], "a", 50), rows(["b13"], "b", 51), rows(["c01"], "c", 52)]))
    check("upserted by pyhudi", 22)
    oracle.write(
        path, pa.concat_tables([rows(["a01", "b00"], "b", 60), rows(["a12"], "a", 61)]), jvm_options(path, table_type)
    )
    check("upserted by JVM Hudi", 23)
    table.refresh().delete(pa.table({"id": ["a00", "b14"], "city": ["a", "b"]}))
    check("deleted by pyhudi", 21)
    if table_type == "mor":
        table.refresh().services.compact()
        check("compacted by pyhudi", 21)
    table.refresh().services.cluster()
    check("clustered by pyhudi", 21)
    oracle.write(path, rows(["a99", "a10"], "a", 70), jvm_options(path, table_type))
    check("upserted by JVM Hudi again", 21)
    cleaned = table.refresh().services.clean(hudi_options={"hoodie.clean.commits.retained": "1"})
    assert cleaned is not None
    check("cleaned by pyhudi", 21)
    assert hashes(source) == before


@pytest.mark.parametrize("cleaner", ["JVM Hudi", "pyhudi"])
def test_clean_that_deletes_skeletons_leaves_the_bootstrap_index_as_it_was(
    cleaner: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, path = oracle_of("1.2.0"), tmp_path / f"boot_cleaned_{cleaner[:3].lower()}"
    source = parquet_source(tmp_path / "source")
    bootstrapped_by_jvm_hudi(oracle, source, path, 9, "cow")
    index = hashes(path / ".hoodie" / ".aux" / ".bootstrap")
    table = pyhudi.HudiTable.for_path(path)
    for number in (50, 51):
        table.upsert(rows(["a01"], "a", number), hudi_options={"hoodie.clean.automatic": "false"})
    skeletons = set(path.rglob("*_00000000000001.parquet"))
    if cleaner == "pyhudi":
        options = {"hoodie.clean.commits.retained": "1", "hoodie.clean.delete.bootstrap.base.file": "true"}
        table.refresh().services.clean(hudi_options=options)
        assert len(hashes(source)) == 3
    else:
        options = {"hoodie.clean.automatic": "true", "hoodie.clean.commits.retained": "1"}
        for number in (52, 53):
            oracle.write(path, rows(["a01"], "a", number), {**jvm_options(path, "cow"), **options})
    assert set(path.rglob("*_00000000000001.parquet")) < skeletons
    assert hashes(path / ".hoodie" / ".aux" / ".bootstrap") == index
    assert_same_rows(oracle.read(path), table.refresh().scan().to_arrow())
    oracle.write(path, rows(["a11", "b00"], "b", 60), jvm_options(path, "cow"))
    assert_same_rows(oracle.read(path), table.refresh().scan().to_arrow())


def test_incremental_reads_and_time_travel_of_a_bootstrapped_table_equal_those_of_jvm_hudi(
    tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, path = oracle_of("1.2.0"), tmp_path / "boot_history"
    source = parquet_source(tmp_path / "source")
    bootstrapped_by_jvm_hudi(oracle, source, path, 9, "cow")
    first = pyhudi.HudiTable.for_path(path).upsert(rows(["a01", "a99"], "a", 50))
    pyhudi.HudiTable.for_path(path).upsert(rows(["b00"], "b", 51))
    table = pyhudi.HudiTable.for_path(path)
    for as_of in ("00000000000001", first.instant):
        then = oracle.read(path, {"as.of.instant": as_of})
        assert_same_rows(then, table.scan(as_of=as_of).to_arrow(), hint=f"as of {as_of}")
    assert table.changes().to_arrow().num_rows == 21
    bootstrap = table.inspect.history().to_pylist()[-1]
    assert (bootstrap["instant"], bootstrap["operation"]) == ("00000000000001", "bootstrap")
    later = table.changes(begin=bootstrap["completion_time"]).to_arrow()
    assert sorted(later["id"].to_pylist()) == ["a01", "a99", "b00"]


def test_source_without_partitions_and_with_types_of_its_own_is_read_as_jvm_hudi_reads_it(
    tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, path, source = oracle_of("1.2.0"), tmp_path / "boot_flat", tmp_path / "flat"
    source.mkdir()
    flat = pa.table({"id": [f"k{i}" for i in range(9)], "deep": [{"a": i, "b": [str(i)] * i} for i in range(9)]})
    pq.write_table(flat, source / "one.parquet", row_group_size=4)
    oracle.sql(
        f"call run_bootstrap(table => 'boot_flat', table_type => 'COPY_ON_WRITE', bootstrap_path => '{source}',"
        f" base_path => '{path}', rowKey_field => 'id',"
        " key_generator_class => 'org.apache.hudi.keygen.NonpartitionedKeyGenerator',"
        " options => 'hoodie.metadata.enable=false')"
    )
    ours = pyhudi.HudiTable.for_path(path).scan().to_arrow()
    assert_same_rows(oracle.read(path), ours)
    assert ours.num_rows == 9


@pytest.mark.parametrize(
    ("version", "table_type", "options"),
    [
        (9, "cow", {"hoodie.metadata.enable": "true", "hoodie.metadata.record.index.enable": "true"}),
        (9, "mor", {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}),
        pytest.param(6, "cow", {}, marks=pytest.mark.thorough),
    ],
)
def test_table_of_skeletons_with_row_groups_is_changed_by_conditions_and_read_by_jvm_hudi(
    version: int,
    table_type: str,
    options: dict[str, str],
    tmp_path: Path,
    oracle_of: OracleOf,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    oracle, path = oracle_of(RELEASE_OF_TABLE_VERSION[version]), tmp_path / f"boot_changed_{table_type}"
    monkeypatch.setattr(bootstrap, "DIVIDED_FROM_BYTES", 0)
    monkeypatch.setattr(bootstrap, "ROWS_PER_PART", 1)
    source = parquet_source(tmp_path / "source")
    before = hashes(source)
    table = pyhudi.HudiTable.bootstrap(
        source,
        path,
        record_key="id",
        ordering_fields="ts",
        table_type=table_type,
        table_version=version,
        hudi_options=options,
    )
    assert pq.ParquetFile(next(path.rglob("*.parquet"))).metadata.num_row_groups == 3
    with_index = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"} if options else {}

    def check(hint: str) -> None:
        assert_same_rows(oracle.read(path, with_index), table.refresh().scan().to_arrow(), hint=hint)

    check("bootstrapped")
    table.alter.add_column("z", pa.int64())
    check("with a new column")
    assert table.refresh().update({"n": pc.field("n") + 100, "ts": 30}, [("city", "==", "b")]).updated == 10
    check("updated")
    assert table.refresh().delete_where([("n", "==", 3)]).deleted == 2
    check("deleted")
    merged = pa.table({"id": ["a00", "q1"], "city": ["a", "c"], "n": [7, 9], "ts": [40, 40]})
    values = {"n": pc.field("source.n"), "ts": pc.field("source.ts")}
    merge = table.refresh().merge(merged, on=["id", "city"]).when_matched_update(set=values)
    merge.when_not_matched_insert(values={"id": "source.id", "city": "source.city", **values}).execute()
    check("merged")
    given = {**jvm_options(path, table_type), **options, "hoodie.datasource.write.precombine.field": "ts"}
    if "hoodie.metadata.record.index.enable" in options:
        given["hoodie.index.type"] = "RECORD_INDEX"
    late = pa.concat_tables([rows(["a02"], "a", 90), rows(["q1"], "c", 90)]).append_column("z", pa.array([1, 2]))
    oracle.write(path, late, given)
    check("upserted by JVM Hudi")
    table.refresh().services.cluster()
    check("clustered")
    assert hashes(source) == before


@pytest.mark.parametrize(("version", "table_type"), [(9, "cow"), (6, "mor")])
def test_partition_that_came_into_the_source_later_is_copied_and_read_by_jvm_hudi(
    version: int, table_type: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, path = oracle_of(RELEASE_OF_TABLE_VERSION[version]), tmp_path / f"boot_later_{version}"
    source = parquet_source(tmp_path / "source")
    bootstrapped_by_jvm_hudi(oracle, source, path, version, table_type)
    parquet_source(source, cities="c")
    before = hashes(source)

    written = pyhudi.HudiTable.for_path(path).source.copy_new_partitions(check_keys=True)

    assert written is not None
    assert written.inserted == 10
    assert_same_rows(oracle.read(path), pyhudi.HudiTable.for_path(path).scan().to_arrow(), hint="copied")
    oracle.write(path, rows(["c00", "c99", "a01"], "c", 60), jvm_options(path, table_type))
    ours = pyhudi.HudiTable.for_path(path).scan().to_arrow()
    assert_same_rows(oracle.read(path), ours, hint="upserted by JVM Hudi")
    assert ours.num_rows == 32
    assert hashes(source) == before


def test_partitions_whose_escapes_were_decoded_are_read_and_written_by_jvm_hudi(
    tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, path, source = oracle_of("1.2.0"), tmp_path / "boot_decoded", parquet_source(tmp_path / "source")
    (source / "city=b").rename(source / "city=new%20york")
    translator = "org.apache.hudi.client.bootstrap.translator.DecodedBootstrapPartitionPathTranslator"
    options = {"hoodie.bootstrap.partitionpath.translator.class": translator}
    table = pyhudi.HudiTable.bootstrap(source, path, record_key="id", hudi_options=options)
    assert table.inspect.partitions()["partition_path"].to_pylist() == ["city=a", "city=new york"]
    assert_same_rows(oracle.read(path), table.scan().to_arrow(), hint="bootstrapped")
    oracle.write(path, rows(["b00", "b99"], "new york", 60), jvm_options(path, "cow"))
    ours = table.refresh().scan().to_arrow()
    assert_same_rows(oracle.read(path), ours, hint="upserted by JVM Hudi")
    assert ours.num_rows == 21


@pytest.mark.parametrize("maker", ["JVM Hudi", "pyhudi"])
@pytest.mark.parametrize(("version", "table_type"), [(9, "mor"), (6, "cow")])
def test_bootstrap_of_both_modes_with_a_metadata_table_is_read_and_written_in_turn(
    version: int, table_type: str, maker: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, path = oracle_of(RELEASE_OF_TABLE_VERSION[version]), tmp_path / f"boot_listed_{version}"
    source = parquet_source(tmp_path / "source")
    before = hashes(source)
    listed = {"hoodie.metadata.enable": "true"}
    if maker == "pyhudi":
        pyhudi.HudiTable.bootstrap(
            source,
            path,
            record_key="id",
            table_type=table_type,
            table_version=version,
            hudi_options=listed,
            mode=lambda folder: "full_record" if folder == "city=b" else "metadata_only",
        )
    else:
        modes = {
            "hoodie.bootstrap.mode.selector.regex": ".*b",  # the procedure splits options at each =
            "hoodie.bootstrap.mode.selector.regex.mode": "FULL_RECORD",
            "hoodie.datasource.write.precombine.field": "ts",  # without it, the copy fails in 1.2.0
        }
        # Its default since 1.1, with which it refuses to bootstrap.
        modes["hoodie.metadata.index.column.stats.enable"] = "false"
        selector = "org.apache.hudi.client.bootstrap.selector.BootstrapRegexModeSelector"
        bootstrapped_by_jvm_hudi(oracle, source, path, version, table_type, selector=selector, **listed, **modes)
    instants = [one["instant"] for one in pyhudi.HudiTable.for_path(path).inspect.history().to_pylist()]
    assert sorted(instants) == ["00000000000001", "00000000000002"]

    def check(hint: str, count: int) -> pyhudi.HudiTable:
        table = pyhudi.HudiTable.for_path(path, hudi_options=listed)
        assert_same_rows(oracle.read(path, listed), table.scan().to_arrow(), hint=hint)
        assert table.scan().count() == count, hint
        return table

    check("bootstrapped", 20).upsert(pa.concat_tables([rows(["a01", "a99"], "a", 50), rows(["b13"], "b", 51)]))
    check("upserted by pyhudi", 21)
    late = pa.concat_tables([rows(["a02", "a98"], "a", 60), rows(["b14"], "b", 61)])
    oracle.write(path, late, {**jvm_options(path, table_type), **listed})
    table = check("upserted by JVM Hudi", 22)
    if table_type == "mor":
        table.services.compact()
    check("compacted", 22).services.cluster()
    check("clustered", 22)
    assert hashes(source) == before


@pytest.mark.parametrize(("version", "table_type"), [(9, "mor"), (8, "cow"), (6, "cow")])
def test_bootstrap_that_went_on_after_its_death_is_read_and_written_by_jvm_hudi(
    version: int, table_type: str, tmp_path: Path, oracle_of: OracleOf
) -> None:
    oracle, path = oracle_of(RELEASE_OF_TABLE_VERSION[version]), tmp_path / f"boot_again_{version}"
    source = parquet_source(tmp_path / "source")
    before = hashes(source)
    options = {
        "hoodie.table.name": path.name,
        "hoodie.datasource.write.table.type": TYPES[table_type],
        "hoodie.write.table.version": str(version),
    }
    whole = FaultStorage(MemoryStorage())
    run_bootstrap(source, whole, mode=copy_city_b, options=options)
    in_city_a = [number for number, effect in enumerate(whole.effects, 1) if effect.path.startswith("city=a/")]
    dying = FaultStorage(LocalStorage(path), before=at_effect(in_city_a[-1], SimulatedCrash()))
    with pytest.raises(SimulatedCrash):
        run_bootstrap(source, dying, mode=copy_city_b, options=options)
    noted = hashes(path)
    run_bootstrap(source, LocalStorage(path), later=True, mode=copy_city_b, options=options)

    stayed = {file for file in noted if file.endswith(".parquet")} & hashes(path).keys()
    assert len(stayed) >= 2
    assert_same_rows(oracle.read(path), pyhudi.HudiTable.for_path(path).scan().to_arrow(), hint="bootstrapped")
    late = pa.concat_tables([rows(["a01", "a99"], "a", 60), rows(["b13"], "b", 61)])
    oracle.write(path, late, jvm_options(path, table_type))
    ours = pyhudi.HudiTable.for_path(path).scan().to_arrow()
    assert_same_rows(oracle.read(path), ours, hint="upserted by JVM Hudi")
    assert ours.num_rows == 21
    assert hashes(source) == before
