"""The page `docs/catalogs.md`: its blocks do what it says, with a real metastore."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.support.hive_metastores import Metastore
from tests.support.pages import ROOT, blocks, run_block


@pytest.mark.timeout(400)
@pytest.mark.xdist_group("hive metastore")
def test_blocks_of_the_page_do_what_it_says(hive_metastore: Metastore, tmp_path: Path) -> None:
    names: dict[str, Any] = {}
    found = blocks(ROOT / "docs" / "catalogs.md")
    assert len(found) == 3
    for block in found:
        code = block.code.replace("thrift://localhost:9083", hive_metastore.uri)
        run_block(replace(block, code=code), names, folder=tmp_path)
