"""Opening the table of a folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pyhudi.api.arguments import HudiOptions, known_options
from pyhudi.api.handle import TableHandle
from pyhudi.config.location import table_path
from pyhudi.errors import ConfigError
from pyhudi.storage.open import open_storage
from pyhudi.table.state import load_table

if TYPE_CHECKING:
    from pyhudi.engine.protocol import Engine
    from pyhudi.merge.rules import Merger


def open_handle(
    path: str | os.PathLike[str], hudi_options: HudiOptions | None, merger: Merger | None, engine: Engine
) -> TableHandle:
    """Open the table of a folder."""
    options = known_options(hudi_options, call="for_path")
    state = load_table(open_storage(table_path(path, options), options))
    if merger is not None and state.config.merger_name != merger.name:
        raise ConfigError(
            f"the merger {merger.name!r} is given, and the table merges by "
            f"{state.config.merger_name or state.config.merge_mode.value}: leave the merger out",
            path=state.config.path,
        )
    return TableHandle(state, options, engine, mergers=() if merger is None else (merger,))
