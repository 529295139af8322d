"""Every Python block of every page runs, and gives what the page says.

The blocks of a page run one after the other, as a reader would type them, and `expression  # → value` is compared. A
comment above a block names another test that runs it (`<!-- tested by tests/spark/test_docs.py -->`), or the module
that the block is to be saved as (`<!-- my_module.py -->`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.support.pages import ROOT, Block, blocks, name_of, pages, run_block

PAGES = [page for page in pages() if any(not block.tested_by for block in blocks(page))]
ELSEWHERE = [(name_of(page), block.tested_by) for page in pages() for block in blocks(page) if block.tested_by]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_blocks_of_a_page_do_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, Any] = {}
    for block in blocks(page):
        if block.file_name:
            (tmp_path / block.file_name).write_text(block.code, encoding="utf-8")
        elif not block.tested_by:
            run_block(block, names, folder=tmp_path)


def test_a_value_that_is_not_so_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="1 \\+ 1"):
        run_block(Block("1 + 1  # → 3\n", ""), {}, folder=tmp_path)


@pytest.mark.parametrize(("page", "test"), ELSEWHERE)
def test_a_test_that_runs_a_block_reads_its_page(page: str, test: str) -> None:
    assert (ROOT / test).exists()
    assert Path(page).name in (ROOT / test).read_text(encoding="utf-8")
