"""The words for an index that a scan cannot use: a warning with the repair, and the reason for `explain`."""

from __future__ import annotations

from pyhudi.errors import HudiError
from pyhudi.metadata_table.unused_warning import warn_of_index, warn_of_metadata_table
from pyhudi.read.skipping.metadata_read import BelievedMetadata


def unbelieved(metadata: BelievedMetadata) -> str | None:
    """Why no index can be used, of which a warning tells; None where they can. Errors: those of `BelievedMetadata`."""
    if metadata.problem is None:
        return None
    warn_of_metadata_table(metadata.table.storage, metadata.problem)
    return f"the metadata table is not used: {metadata.problem}"


def ahead(metadata: BelievedMetadata) -> str | None:
    """Why indexes of the newest state cannot be used, which is no defect; None where they can."""
    return None if metadata.is_ahead is None else f"the metadata table is not used: {metadata.is_ahead}"


def unreadable(metadata: BelievedMetadata, index: str, error: HudiError) -> str:
    """Why an index cannot be used that is damaged, or lacks a file; a warning tells of it."""
    warn_of_index(metadata.table.storage, index, str(error))
    return f"the metadata table cannot be read: {error.message}"


def incomplete(metadata: BelievedMetadata, index: str, reason: str) -> str:
    """Why an index cannot be used that may lack rows; a warning tells of it."""
    warn_of_index(metadata.table.storage, index, reason.removesuffix(": refresh it"))
    return reason
