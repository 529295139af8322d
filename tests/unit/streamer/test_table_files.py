"""The property files of many tables, as HoodieMultiTableStreamer has them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.ingestions import Landing

import pyhudi
from pyhudi.commands.command_line import main
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.storage.open import open_storage
from pyhudi.streamer import configs_of_folder, run_many
from pyhudi.streamer.named_files import properties_of_file
from pyhudi.streamer.settings import settings_of
from pyhudi.table.state import load_table

NO_NEW_DATA = "org.apache.hudi.utilities.streamer.NoNewDataTerminationStrategy"


def put(path: Path, **values: str) -> Path:
    """A property file of the streamer; `_` stands for a point."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"hoodie.{name.replace('_', '.')}={value}\n" for name, value in values.items()))
    return path


def warehouse(folder: Path) -> Path:
    """Two tables with files, of which `default.events` has its property file elsewhere; the file that lists them."""
    Landing(folder / "orders").put("a", [1, 2])
    Landing(folder / "events").put("a", [3])
    put(folder / "conf" / "shop_orders_config.properties", streamer_source_dfs_root=str(folder / "orders"))
    put(
        folder / "elsewhere.properties",
        deltastreamer_source_dfs_root=str(folder / "events"),
        streamer_ingestion_targetBasePath=str(folder / "of its own"),
        streamer_transformer_class="SqlQueryBasedTransformer",
        streamer_transformer_sql="SELECT id + 1 AS id FROM <SRC>",
    )
    return put(
        folder / "common.properties",
        streamer_ingestion_tablesToBeIngested="shop.orders, events",
        deltastreamer_ingestion_default_events_configFile=str(folder / "elsewhere.properties"),
        datasource_write_recordkey_field="id",
    )


def arguments(folder: Path, *more: str) -> list[str]:
    given = {"--config-folder": folder / "conf", "--props": folder / "common.properties"}
    return ["streamer", *(str(text) for pair in given.items() for text in pair), *more]


def ids(path: Path) -> list[int]:
    return sorted(pyhudi.HudiTable.for_path(path).scan(["id"]).to_arrow()["id"].to_pylist())


def test_each_listed_table_is_written_by_its_own_file_over_the_common_one(tmp_path: Path):
    configs = configs_of_folder(
        tmp_path / "conf", props=warehouse(tmp_path), base_path_prefix=tmp_path / "tables", table_type="MERGE_ON_READ"
    )
    assert [result.error for result in run_many(configs)] == [None, None]
    assert ids(tmp_path / "tables" / "shop" / "orders") == [1, 2]
    assert ids(tmp_path / "of its own") == [4]
    names = [load_table(open_storage(str(config.target_base_path))).config.name for config in configs]
    assert names == ["shop.orders", "default.events"]


def test_options_that_are_given_count_over_those_of_all_files(tmp_path: Path):
    configs = configs_of_folder(
        tmp_path / "conf",
        props=warehouse(tmp_path),
        base_path_prefix=tmp_path,
        hoodie_conf={"hoodie.datasource.write.recordkey.field": "note"},
    )
    conf: list[Any] = [config.hoodie_conf for config in configs]
    assert {options["hoodie.datasource.write.recordkey.field"] for options in conf} == {"note"}


def test_registry_of_a_table_is_that_of_its_topic(tmp_path: Path):
    common = warehouse(tmp_path)
    base = {"hoodie.streamer.schemaprovider.registry.baseUrl": "http://registry:8081/subjects/"}
    more = {"hoodie.streamer.schemaprovider.registry.urlSuffix": "-value/versions/latest"}
    topic = {"hoodie.streamer.source.kafka.topic": "t", "bootstrap.servers": "localhost:1"}
    configs = configs_of_folder(
        tmp_path / "conf",
        props=common,
        base_path_prefix=tmp_path,
        hoodie_conf={**base, **more, **topic},
        source_class="AvroKafkaSource",
        schemaprovider_class="org.apache.hudi.utilities.schema.SchemaRegistryProvider",
    )
    registry = "hoodie.streamer.schemaprovider.registry.url"
    assert settings_of(configs[0]).options[registry] == "http://registry:8081/subjects/t-value/versions/latest"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("hoodie.streamer.ingestion.noSuchOption", "1"),
        ("hoodie.streamer.schemaprovider.registry.targetUrlSuffix", "-other/versions/latest"),
    ],
)
def test_option_of_lists_that_is_not_known_is_refused_by_name(tmp_path: Path, option: str, value: str):
    configs = configs_of_folder(
        tmp_path / "conf", props=warehouse(tmp_path), base_path_prefix=tmp_path, hoodie_conf={option: value}
    )
    with pytest.raises(UnsupportedFeatureError, match=option.rpartition(".")[2]):
        run_many(configs)


def test_target_schema_of_the_registry_may_be_that_of_the_source(tmp_path: Path):
    ends = {
        f"hoodie.streamer.schemaprovider.registry.{name}": "-value/versions/latest"
        for name in ("sourceUrlSuffix", "targetUrlSuffix")
    }
    configs = configs_of_folder(
        tmp_path / "conf", props=warehouse(tmp_path), base_path_prefix=tmp_path, hoodie_conf=ends
    )
    assert [table.result.rows for table in run_many(configs)] == [2, 1]


@pytest.mark.parametrize(
    ("common", "prefix", "message"),
    [
        ({}, "tables", "which tables there are"),
        ({"streamer_ingestion_tablesToBeIngested": "no.such"}, "tables", "no such property file"),
        ({"streamer_ingestion_tablesToBeIngested": "shop.orders"}, None, "where the table is"),
    ],
)
def test_lists_that_say_too_little_are_refused(
    tmp_path: Path, common: dict[str, str], prefix: str | None, message: str
):
    warehouse(tmp_path)
    props = put(tmp_path / "other.properties", **common)
    with pytest.raises(ConfigError, match=message):
        configs_of_folder(tmp_path / "conf", props=props, base_path_prefix=prefix)


def test_lines_of_included_files_count_where_they_are_included(tmp_path: Path):
    (tmp_path / "base.properties").write_text("a=base\nb=base\n")
    (tmp_path / "mine.properties").write_text(
        f"a=before\ninclude=base.properties\nb=after\ninclude = {tmp_path / 'more.properties'}\n"
    )
    (tmp_path / "more.properties").write_text("c=more\n")
    found = properties_of_file(str(tmp_path / "mine.properties"), {})
    assert found == {"a": "base", "b": "after", "c": "more"}


def test_files_that_include_each_other_are_refused(tmp_path: Path):
    (tmp_path / "a.properties").write_text("include=./b.properties\n")
    (tmp_path / "b.properties").write_text("include=./a.properties\n")
    with pytest.raises(ConfigError, match="include each other"):
        properties_of_file(str(tmp_path / "a.properties"), {})


def test_command_ingests_into_all_tables_and_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    warehouse(tmp_path)
    assert main(arguments(tmp_path, "--base-path-prefix", str(tmp_path / "tables"))) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        str(tmp_path / "tables/shop/orders"),
        str(tmp_path / "of its own"),
    ]
    assert [line.split(": ")[2].split(";")[0] for line in lines] == [
        "2 inserted, 0 updated, 0 deleted",
        "1 inserted, 0 updated, 0 deleted",
    ]


def test_table_that_fails_is_in_the_exit_status_and_stops_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    warehouse(tmp_path)
    Landing(tmp_path / "orders").put_text("b", "{")
    more = ["--base-path-prefix", str(tmp_path / "tables"), "--continuous"]
    ends = ["--post-write-termination-strategy-class", NO_NEW_DATA]
    rounds = ["--hoodie-conf", "max.rounds.without.new.data.to.shutdown=1"]
    assert main(arguments(tmp_path, *more, *ends, *rounds)) == 1
    said = capsys.readouterr()
    assert f"{tmp_path / 'tables/shop/orders'} failed: " in said.err
    assert said.out.count("1 inserted") == 1
    assert ids(tmp_path / "of its own") == [4]


@pytest.mark.parametrize(
    "given",
    [
        ["--source-limit", "1"],
        ["--config-folder", "f", "--target-base-path", "t"],
        ["--config-folder", "f"],
        ["--config-folder", "f", "--props", "p", "--target-table", "t"],
        ["--target-base-path", "t", "--base-path-prefix", "p"],
    ],
)
def test_arguments_of_one_table_and_of_many_are_not_mixed(given: list[str]):
    assert main(["streamer", *given]) == 2
