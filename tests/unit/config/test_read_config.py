"""The options of a read: one state of the table, or the changes between two."""

from __future__ import annotations

import pytest

from pyhudi.config.enums import QueryType
from pyhudi.config.read_config import EARLIEST, ReadConfig
from pyhudi.errors import ConfigError, UnsupportedFeatureError

INCREMENTAL = {"hoodie.datasource.query.type": "incremental"}
BEGIN = "hoodie.datasource.read.begin.instanttime"
END = "hoodie.datasource.read.end.instanttime"


def test_no_options_read_the_newest_snapshot():
    assert ReadConfig.from_options({"path": "/t"}) == ReadConfig()
    assert (ReadConfig().query_type, ReadConfig().as_of) == (QueryType.SNAPSHOT, None)


def test_read_optimized_read_may_travel_in_time_but_has_no_range():
    options = {"hoodie.datasource.query.type": "read_optimized", "as.of.instant": "2026-01-31"}
    config = ReadConfig.from_options(options)
    assert (config.query_type, config.as_of) == (QueryType.READ_OPTIMIZED, "2026-01-31")
    with pytest.raises(ConfigError, match=r"need hoodie\.datasource\.query\.type=incremental"):
        ReadConfig.from_options({**options, BEGIN: "0"})


@pytest.mark.parametrize("query", [{}, {**INCREMENTAL, BEGIN: "0"}], ids=["snapshot", "incremental"])
def test_every_read_takes_mergers_and_a_limit_of_memory(query):
    options = {
        "hoodie.write.record.merge.custom.implementation.classes": "acme:Largest",
        "hoodie.memory.merge.max.size": 1000,
        "hoodie.memory.spillable.map.path": "/spill",
    }
    config = ReadConfig.from_options({**query, **options})
    assert config.merging.mergers == ("acme:Largest",)
    assert (config.memory.merge_max_bytes, config.memory.spill_folder) == (1000, "/spill")


def test_unmerged_rows_are_refused_by_name():
    assert ReadConfig.from_options({"hoodie.datasource.merge.type": "payload_combine"}) == ReadConfig()
    with pytest.raises(UnsupportedFeatureError, match="use payload_combine"):
        ReadConfig.from_options({"hoodie.datasource.merge.type": "skip_merge"})


def test_old_name_of_the_query_type_still_works():
    options = {"hoodie.datasource.view.type": "incremental", BEGIN: "20260101000000000"}
    assert ReadConfig.from_options(options).query_type is QueryType.INCREMENTAL


def test_time_travel_keeps_the_time_as_the_user_wrote_it():
    assert ReadConfig.from_options({"as.of.instant": "2026-01-31 23:59:59.999"}).as_of == "2026-01-31 23:59:59.999"


def test_incremental_read_has_a_begin_and_maybe_an_end():
    config = ReadConfig.from_options(
        {
            **INCREMENTAL,
            BEGIN: "20260101000000000",
            END: "20260102000000000",
            "hoodie.datasource.read.incr.fallback.fulltablescan.enable": "false",
        }
    )
    assert (config.begin, config.end) == ("20260101000000000", "20260102000000000")
    assert config.fall_back_to_full_scan is False


@pytest.mark.parametrize("begin", ["earliest", "EARLIEST", "000", "0", "00000000000000000"])
def test_every_name_of_the_beginning_means_before_the_first_instant(begin):
    config = ReadConfig.from_options({**INCREMENTAL, BEGIN: begin})
    assert config.begin == EARLIEST < "00000000000000000"
    assert config.end is None


def test_incremental_read_without_a_begin_is_refused():
    with pytest.raises(ConfigError, match=r"needs hoodie\.datasource\.read\.begin\.instanttime"):
        ReadConfig.from_options(INCREMENTAL)


def test_incremental_read_with_time_travel_is_refused():
    with pytest.raises(ConfigError, match=r"as\.of\.instant does not go with"):
        ReadConfig.from_options({**INCREMENTAL, BEGIN: "0", "as.of.instant": "2026-01-31"})


@pytest.mark.parametrize("key", [BEGIN, END])
def test_range_without_an_incremental_query_is_refused(key):
    with pytest.raises(ConfigError, match=r"need hoodie\.datasource\.query\.type=incremental"):
        ReadConfig.from_options({key: "20260101000000000"})


@pytest.mark.parametrize(("word", "asked"), [("cdc", True), ("CDC", True), ("latest_state", False)])
def test_the_format_of_an_incremental_read_says_whether_change_data_is_asked(word, asked):
    options = {**INCREMENTAL, BEGIN: "0", "hoodie.datasource.query.incremental.format": word}
    assert ReadConfig.from_options(options).change_data is asked


def test_unknown_query_type_is_refused_with_the_legal_ones():
    with pytest.raises(ConfigError, match="one of snapshot, read_optimized, incremental"):
        ReadConfig.from_options({"hoodie.datasource.query.type": "cdc"})


def test_older_name_of_the_read_optimized_query_counts() -> None:
    assert ReadConfig.from_options({"hoodie.query.as.ro.table": "true"}).query_type is QueryType.READ_OPTIMIZED
    assert ReadConfig.from_options({"hoodie.query.as.ro.table": "false"}).query_type is QueryType.SNAPSHOT


def test_older_name_of_the_query_type_may_not_contradict_the_newer() -> None:
    given = {"hoodie.query.as.ro.table": "true", "hoodie.datasource.query.type": "snapshot"}
    with pytest.raises(ConfigError, match="ask for different reads"):
        ReadConfig.from_options(given)
