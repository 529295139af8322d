"""The metadata table as one read asks it: loaded and checked once, for all indexes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyhudi.format.metadata_table.index_definitions import IndexDefinition
from pyhudi.metadata_table.read_checks import disbelief, is_ahead
from pyhudi.metadata_table.state import MetadataState, load_metadata_state
from pyhudi.table.index_definitions import load_index_definitions
from pyhudi.table.state import TableState


@dataclass(frozen=True)
class BelievedMetadata:
    """The metadata table beside a loaded table. Cost: two listings and a read, once, when it is first asked.

    Raises what `load_metadata_state` and `disbelief` do.
    """

    table: TableState

    @cached_property
    def state(self) -> MetadataState:
        """The metadata table as it was when it was first asked."""
        return load_metadata_state(self.table)

    @cached_property
    def problem(self) -> str | None:
        """Why it must not be believed."""
        return disbelief(self.state)

    @cached_property
    def definitions(self) -> dict[str, IndexDefinition]:
        """The definitions of indexes, by name. Cost: a read, once."""
        return load_index_definitions(self.table)

    @property
    def is_ahead(self) -> str | None:
        """Why indexes of the newest state say nothing of the table as it was loaded."""
        return is_ahead(self.state)
