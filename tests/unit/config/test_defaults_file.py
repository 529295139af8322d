"""A machine's `hudi-defaults.conf`, which JVM Hudi reads and pyhudi does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyhudi.config.option import OptionWarning
from pyhudi.config.read_config import ReadConfig
from pyhudi.config.write_config import WriteConfig


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
@pytest.mark.parametrize("config", [ReadConfig, WriteConfig])
def test_defaults_file_of_the_machine_brings_a_warning_that_names_it(
    config: type[ReadConfig | WriteConfig], scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HUDI_CONF_DIR", f"{scheme}{tmp_path}")
    config.from_options({})  # there is no such file, so no warning, which would be an error here
    (tmp_path / "hudi-defaults.conf").write_text("hoodie.index.type BLOOM\n")

    with pytest.warns(OptionWarning, match=rf"{tmp_path}/hudi-defaults\.conf have no effect"):
        config.from_options({})
