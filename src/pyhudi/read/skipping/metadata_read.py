"""The metadata table as one read asks it: loaded and checked once; and what is said of an index that it cannot use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pyhudi.errors import HudiError
from pyhudi.format.metadata_table.index_definitions import IndexDefinition
from pyhudi.metadata_table.read_checks import is_ahead, problem_for_reads, warn_of_index, warn_of_metadata_table
from pyhudi.metadata_table.state import MetadataState, load_metadata_state
from pyhudi.metadata_table.undone_writes import saying_undone_writes
from pyhudi.table.index_definitions import load_index_definitions
from pyhudi.table.state import TableState


@dataclass(frozen=True)
class MetadataOfRead:
    """The metadata table beside a loaded table. Cost: two listings and a read, once, when it is first asked.

    Raises what `load_metadata_state` and `problem_for_reads` do.
    """

    table: TableState

    @cached_property
    def state(self) -> MetadataState:
        """The metadata table as it was when it was first asked."""
        return load_metadata_state(self.table)

    @cached_property
    def problem(self) -> str | None:
        """Why it must not be used."""
        return problem_for_reads(self.state)

    @cached_property
    def definitions(self) -> dict[str, IndexDefinition]:
        """The definitions of indexes, by name. Cost: a read, once."""
        return load_index_definitions(self.table)

    @cached_property
    def undone(self) -> frozenset[str]:
        """The indexes that say what JVM Hudi has rolled back. Cost: that of `saying_undone_writes`, once."""
        return saying_undone_writes(self.table, self.state.timeline)

    @property
    def is_ahead(self) -> str | None:
        """Why indexes of the newest state say nothing of the table as it was loaded."""
        return is_ahead(self.state)


def note_if_invalid(metadata: MetadataOfRead) -> str | None:
    """Why no index can be used, of which a warning tells; None where they can. Errors: those of `MetadataOfRead`."""
    if metadata.problem is None:
        return None
    warn_of_metadata_table(metadata.table.storage, metadata.problem)
    return f"the metadata table is not used: {metadata.problem}"


def ahead(metadata: MetadataOfRead) -> str | None:
    """Why indexes of the newest state cannot be used, which is no defect; None where they can."""
    return None if metadata.is_ahead is None else f"the metadata table is not used: {metadata.is_ahead}"


def saying_undone(metadata: MetadataOfRead, index: str) -> str | None:
    """Why an index cannot be used that says what JVM Hudi has rolled back, of which a warning tells; None where it can.

    Raises as `saying_undone_writes`.
    """
    if index not in metadata.undone:
        return None
    reason = "it was built with a write that was rolled back since"
    warn_of_index(metadata.table.storage, index, reason)
    return reason


def unreadable(metadata: MetadataOfRead, index: str, error: HudiError) -> str:
    """Why an index cannot be used that is damaged, or lacks a file; a warning tells of it."""
    warn_of_index(metadata.table.storage, index, str(error))
    return f"the metadata table cannot be read: {error.message}"


def incomplete(metadata: MetadataOfRead, index: str, reason: str) -> str:
    """Why an index cannot be used that may lack rows; a warning tells of it."""
    warn_of_index(metadata.table.storage, index, reason.removesuffix(": refresh it"))
    return reason
