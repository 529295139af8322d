"""The arguments of a streamer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.support.ingestions import Landing, settings

import pyhudi.streamer
from pyhudi.config.options_streamer import FolderOptions
from pyhudi.errors import ConfigError, UnsupportedFeatureError
from pyhudi.streamer.sources.open import open_source

AVRO = '{"type": "record", "name": "r", "fields": [{"name": "id", "type": "long"}]}'


def test_options_count_over_those_of_the_property_file(tmp_path: Path):
    props = tmp_path / "p.properties"
    props.write_text("hoodie.deltastreamer.csv.sep=;\nhoodie.streamer.source.dfs.root=/elsewhere\n")
    options = settings(Landing(tmp_path), props=props).group(FolderOptions)
    assert options.csv_separator == ";"
    assert options.root == str(tmp_path)


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ({"op": "MERGE"}, {}, "unknown operation"),
        ({"source_limit": 0}, {}, "source_limit"),
        ({}, {"hoodie.write.batch.id": "x"}, "numbers its batches"),
        ({"op": "UPSERT"}, {"hoodie.datasource.write.operation": "insert"}, "leave the option out"),
        ({"props": "/no/such/file"}, {}, "no such property file"),
        ({"schema": pa.schema([]), "schemaprovider_class": "FilebasedSchemaProvider"}, {}, "one of them"),
        ({"schemaprovider_class": "FilebasedSchemaProvider"}, {}, "source.schema.file"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path: Path, given: dict[str, Any], options: dict[str, str], message: str):
    with pytest.raises(ConfigError, match=message):
        settings(Landing(tmp_path), options, **given)


JDBC = "hoodie.streamer.schemaprovider.source.schema.jdbc"


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ({}, {"hoodie.streamer.sample.writes.enabled": "true"}, "sample.writes.enabled is not built"),
        (
            {"schemaprovider_class": "org.x.HiveSchemaProvider"},
            {},
            "Hive table is not built; .* FilebasedSchemaProvider",
        ),
        ({"schemaprovider_class": "ProtoClassBasedSchemaProvider"}, {}, "Protobuf, .* is not built"),
        ({"schemaprovider_class": "org.x.MySchemaProvider"}, {}, "^the schema providers are"),
        (
            {"schemaprovider_class": "JdbcbasedSchemaProvider"},
            {f"{JDBC}.connection.url": "jdbc:sqlite:/tmp/db", f"{JDBC}.dbtable": "t"},
            "reads PostgreSQL",
        ),
    ],
)
def test_what_is_not_built_is_refused_by_name(
    tmp_path: Path, given: dict[str, Any], options: dict[str, str], message: str
):
    with pytest.raises(UnsupportedFeatureError, match=message):
        settings(Landing(tmp_path), options, **given)


def test_schema_of_a_file_is_that_of_the_rows(tmp_path: Path):
    (tmp_path / "s.avsc").write_text(AVRO)
    options = {"hoodie.streamer.schemaprovider.source.schema.file": str(tmp_path / "s.avsc")}
    assert settings(Landing(tmp_path), options).schema == pa.schema([pa.field("id", pa.int64(), nullable=False)])


def test_source_that_is_not_built_is_refused_by_name():
    with pytest.raises(UnsupportedFeatureError, match="not built"):
        pyhudi.streamer.run("/tmp/none", source_class="org.apache.hudi.utilities.sources.PulsarSource")


def test_source_of_files_needs_a_folder_and_takes_no_options_of_a_client(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"source\.dfs\.root"):
        pyhudi.streamer.run("/tmp/none")
    with pytest.raises(ConfigError, match="no options"):
        open_source(settings(Landing(tmp_path), {"bootstrap.servers": "x"}))
