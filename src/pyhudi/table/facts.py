"""`Facts`: what the checks of a table's features may ask about a loaded table."""

from __future__ import annotations

from typing import Protocol

from pyhudi.config.table_config import TableConfig
from pyhudi.storage.protocol import Storage
from pyhudi.table.newest_writes import NewestWrites
from pyhudi.table.timeline import Timeline


class Facts(Protocol):
    """Facts about a loaded table; `pyhudi.table.state.TableState` is one."""

    @property
    def config(self) -> TableConfig:
        """Its properties."""

    @property
    def timeline(self) -> Timeline:
        """Its timeline."""

    @property
    def storage(self) -> Storage:
        """Its store."""

    @property
    def newest_writes(self) -> NewestWrites:
        """Facts from its newest commits. Cost: a read, the first time."""

    @property
    def has_hashing_metadata(self) -> bool:
        """Whether it keeps the buckets of a consistent bucket index. Cost: a listing, the first time."""
