"""`ServiceCall`: the arguments that all table services share."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyhudi.config.write_config import WriteConfig
from pyhudi.engine.protocol import Engine
from pyhudi.environment import Environment
from pyhudi.merge.rules import Merger
from pyhudi.table.state import TableState
from pyhudi.transaction.settings import TransactionSettings


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """The call of a table service: the table as it was loaded, options, engine, and the user's mergers."""

    table: TableState
    config: WriteConfig
    settings: TransactionSettings
    engine: Engine
    environment: Environment
    mergers: tuple[Merger, ...] = ()

    def reloaded(self) -> ServiceCall:
        """The same call on the table as it is now."""
        return replace(self, table=self.table.reload())
