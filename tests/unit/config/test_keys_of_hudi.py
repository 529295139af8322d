"""Every option that JVM Hudi 1.2.0 declares is honoured, refused, or declared without effect, and none by chance.

`options_of_hudi_1_2_0.tsv` was printed by `tools/oracle/OptionNames.java`: key, default, other keys.
"""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import pyhudi
from pyhudi.config.option import OptionWarning
from pyhudi.config.read_config import ReadConfig
from pyhudi.config.refused_keys import REFUSED, Side, is_refusable
from pyhudi.config.registry import OPTIONS, given_options
from pyhudi.config.unsupported_keys import UNSUPPORTED, unsupported_area
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import UnsupportedFeatureError

LINES = Path(__file__).with_name("options_of_hudi_1_2_0.tsv").read_text(encoding="utf-8").splitlines()
DECLARED = [(key, default, others.split()) for key, default, others in (line.split("\t") for line in LINES)]
NAMES = [name for key, _, others in DECLARED for name in (key, *others)]


def test_every_option_of_hudi_is_classified() -> None:
    assert len(NAMES) > 700
    unknown = [name for name in NAMES if name.lower() not in OPTIONS and not is_refusable(name)]
    assert [name for name in unknown if unsupported_area(name) is None] == []


def test_default_of_hudi_is_never_refused() -> None:
    for key, default, _ in DECLARED:
        if key not in OPTIONS:
            for side in Side:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", OptionWarning)
                    assert given_options({key: default}, side) == {}


def test_refused_key_is_one_of_hudi_or_of_an_older_release() -> None:
    older = {
        "hoodie.assume.date.partitioning",
        "hoodie.auto.commit",
        "hoodie.deltastreamer.keygen.datetime.parser.class",
        "hoodie.index.hbase.security.authentication",
        "hoodie.payload.update.on.same.ordering.field",
        "hoodie.realtime.merge.skip",
    }
    refused = {name for one in REFUSED for name in one.keys if not name.endswith(".")}
    assert refused - set(NAMES) - older == set()


ROOMS_OF_WHAT_IS_NOT_BUILT = {
    "the table service manager": "service_manager",
    "the lock of the Hive metastore": "transaction/locks/hive_metastore",
}
"""What options are said to wait for, and the room or module of `pyhudi` in which it will stand."""


def test_what_is_said_to_be_not_built_has_no_room() -> None:
    said = {area.area for area in UNSUPPORTED if "not built" in area.reason}
    assert said == set(ROOMS_OF_WHAT_IS_NOT_BUILT)
    rooms = Path(pyhudi.__file__).parent
    places = {title: rooms / room for title, room in ROOMS_OF_WHAT_IS_NOT_BUILT.items()}
    built = [title for title, place in places.items() if place.exists() or place.with_suffix(".py").exists()]
    assert built == []


def test_what_options_wait_for_is_on_the_page_of_limitations() -> None:
    page = (Path(__file__).parents[3] / "docs" / "limitations.md").read_text(encoding="utf-8")
    missing = page.partition("## Not there yet")[2].partition("\n## ")[0]
    words = ("service manager", "catalogs", "Hive metastore")
    assert [word for word in words if word not in missing] == []


WRITES = {
    "hoodie.prewrite.validators": "com.example.Validator",
    "hoodie.merge.data.validation.enabled": "true",
    "hoodie.write.schema": '{"type":"record"}',
    "hoodie.avro.schema": '{"type":"record"}',
    "hoodie.allow.operation.metadata.field": "true",
    "hoodie.static.overwrite.partition.paths": "a,b",
    "hoodie.merge.allow.duplicate.on.inserts": "false",
    "hoodie.keygen.datetime.parser.class": "com.example.Parser",
    "hoodie.storage.layout.type": "CONSISTENT",
    "hoodie.write.merge.handle.class": "com.example.Handle",
    "hoodie.record.merge.property.hoodie.payload.partial.update.unavailable.value": "x",
    "hoodie.avro.write.support.class": "com.example.Encrypted",
    "hoodie.parquet.write.config.injector.class": "com.example.Injector",
    "hoodie.auto.commit": "false",
    "hoodie.metaserver.enabled": "true",
    "hoodie.archivelog.folder": "old",
    "hoodie.timeline.path": "tl",
    "hoodie.table.version": "6",
    "hoodie.table.format": "iceberg",
    "hoodie.storage.class": "com.example.Storage",
    "parquet.crypto.factory.class": "org.apache.parquet.crypto.keytools.PropertiesDrivenCryptoFactory",
    "parquet.encryption.footer.key": "k1",
    "HOODIE.PREWRITE.VALIDATORS": "com.example.Validator",
}
READS = {
    "hoodie.realtime.merge.skip": "true",
    "hoodie.datasource.read.incr.filters": "a > 1",
    "hoodie.datasource.read.incr.path.glob": "/2026/*",
    "hoodie.datasource.read.incr.table.version": "6",
    "hoodie.datasource.read.schema.use.end.instanttime": "true",
    "hoodie.read.timeline.holes.resolution.policy": "BLOCK",
    "hoodie.datasource.read.extract.partition.values.from.path": "true",
    "hoodie.datasource.read.paths": "/t/a,/t/b",
    "hoodie.datasource.read.create.filesystem.relation": "true",
    "hoodie.assume.date.partitioning": "true",
    "hoodie.metaserver.enabled": "true",
    "hoodie.io.factory.class": "com.example.Factory",
    "parquet.crypto.factory.class": "x",
}


@pytest.mark.parametrize("key", WRITES)
def test_write_that_asks_for_what_cannot_be_given_is_refused(key: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"is not supported with this value") as caught:
        WriteConfig.from_options({key: WRITES[key]})
    assert caught.value.context == {"option": key}


@pytest.mark.parametrize("key", READS)
def test_read_that_asks_for_what_cannot_be_given_is_refused(key: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"is not supported with this value"):
        ReadConfig.from_options({key: READS[key]})


@pytest.mark.parametrize(
    "key",
    sorted(set(WRITES) - set(READS) - {"parquet.encryption.footer.key", "hoodie.storage.class", "hoodie.table.format"}),
)
def test_option_of_writes_does_not_stop_a_read(key: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", OptionWarning)
        assert ReadConfig.from_options({key: WRITES[key]}) == ReadConfig()


QUIET = {
    "hoodie.write.record.positions": "false",
    "hoodie.avro.schema.validate": "true",
    "hoodie.datasource.write.row.writer.enable": "false",
    "hoodie.write.merge.handle.class": "org.apache.hudi.io.HoodieMergeHandle",
    "hoodie.datasource.read.incr.skip_compact": "true",
}
LOUD = {
    "hoodie.write.record.positions": "true",
    "hoodie.merge.use.record.positions": "true",
    "hoodie.parquet.writelegacyformat.enabled": "true",
    "hoodie.parquet.field_id.write.enabled": "true",
    "hoodie.write.lock.num_retries": "3",
    "hoodie.write.lock.zookeeper.port": "2181",
    "hoodie.datasource.hive_sync.jdbcurl": "jdbc:hive2://localhost:10000",
    "hoodie.metadata.max.init.parallelism": "7",
    "as.of.instants": "2026-01-01",
}


@pytest.mark.parametrize("key", QUIET)
def test_value_that_asks_for_nothing_else_is_silent(key: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert given_options({key: QUIET[key]}, Side.WRITE) == {}


@pytest.mark.parametrize("key", LOUD)
def test_value_that_is_passed_over_warns(key: str) -> None:
    with pytest.warns(OptionWarning, match=f"{key} has no effect"):
        assert given_options({key: LOUD[key]}, Side.READ) == {}
