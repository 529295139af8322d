"""Options of the metadata table: whether there is one, and what is in it."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.config.option import option
from pyhudi.config.parsers import boolean


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataTableOptions:
    """The table beside the table that knows its files, so that readers need not list them."""

    enabled: bool | None = option(
        "hoodie.metadata.enable",
        parse=boolean(),
        default=None,
        doc="A write with `true` builds the metadata table where there is none, and one with `false` drops it. Without"
        " the option every write keeps what is there.",
    )
