"""`python -m pyhudi streamer`: what it prints, and how it ends."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.ingestions import Landing

import pyhudi
from pyhudi.commands.command_line import main


def arguments(folder: Path, *more: str) -> list[str]:
    return [
        "streamer",
        "--target-base-path",
        str(folder / "t"),
        "--source-class",
        "org.apache.hudi.utilities.sources.JsonDFSSource",
        "--hoodie-conf",
        f"hoodie.streamer.source.dfs.root={folder / 'landing'}",
        "--hoodie-conf",
        "hoodie.datasource.write.recordkey.field=id",
        *more,
    ]


def test_command_ingests_and_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Landing(tmp_path / "landing").put("a", [1, 2], ms=1_700_000_000_000)
    assert main(arguments(tmp_path, "--table-type", "MERGE_ON_READ")) == 0
    line = capsys.readouterr().out
    assert line.endswith(" upsert: 2 inserted, 0 updated, 0 deleted; checkpoint 1700000000000\n")
    assert main(arguments(tmp_path)) == 0
    assert capsys.readouterr().out == "nothing new; checkpoint 1700000000000\n"
    assert pyhudi.HudiTable.for_path(tmp_path / "t").scan().count() == 2


def test_failure_of_the_source_ends_with_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Landing(tmp_path / "landing").put_text("a", "{")
    assert main(arguments(tmp_path)) == 1
    assert "cannot be read" in capsys.readouterr().err
    assert not (tmp_path / "t" / ".hoodie").exists()


def test_wrong_option_ends_with_two(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Landing(tmp_path / "landing").put("a", [1])
    assert main(arguments(tmp_path, "--op", "MERGE")) == 2
    assert "unknown operation" in capsys.readouterr().err


def test_continuous_command_says_each_batch_and_ends_without_new_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    landing = Landing(tmp_path / "landing")
    landing.put("a", [1, 2], ms=1_700_000_000_000)
    landing.put("b", [3], ms=1_700_000_000_001)
    strategy = "org.apache.hudi.utilities.streamer.NoNewDataTerminationStrategy"
    more = ["--continuous", "--source-limit", "1", "--post-write-termination-strategy-class", strategy]
    rounds = ["--hoodie-conf", "max.rounds.without.new.data.to.shutdown=1"]
    assert main(arguments(tmp_path, *more, *rounds)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" upsert: ")[2] for line in lines] == [
        "2 inserted, 0 updated, 0 deleted; checkpoint 1700000000000",
        "1 inserted, 0 updated, 0 deleted; checkpoint 1700000000001",
    ]


@pytest.mark.parametrize("more", [["--continuous"], []])
def test_strategy_that_is_not_built_ends_with_two(tmp_path: Path, more: list[str]) -> None:
    assert main(arguments(tmp_path, *more, "--post-write-termination-strategy-class", "x.Mine")) == 2


def test_interruption_ends_with_the_status_of_shells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pyhudi.streamer.loop.run", interrupted)
    assert main(arguments(tmp_path)) == 130
    assert "read again" in capsys.readouterr().err
