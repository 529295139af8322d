"""The nouns of `HudiTable`: all but its daily verbs. Each is loaded when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyhudi.api.alter import Alter
    from pyhudi.api.catalog import Catalog
    from pyhudi.api.handle import TableHandle
    from pyhudi.api.indexes import Indexes
    from pyhudi.api.inspect import Inspect
    from pyhudi.api.recovery import Recovery
    from pyhudi.api.savepoints import Savepoints
    from pyhudi.api.services import Services
    from pyhudi.api.source import Source


class Nouns:
    """The nouns of `HudiTable`: all but its daily verbs."""

    handle: TableHandle

    @property
    def inspect(self) -> Inspect:
        """Metadata: history, timeline, files, partitions, and what kind of table it is."""
        from pyhudi.api.inspect import Inspect

        return Inspect(self.handle)

    @property
    def services(self) -> Services:
        """Table services: compaction, clustering, cleaning, archiving, expiry of partitions; at once, or as plans."""
        from pyhudi.api.services import Services

        return Services(self.handle)

    @property
    def alter(self) -> Alter:
        """Changes of the table itself: its columns, and its version."""
        from pyhudi.api.alter import Alter

        return Alter(self.handle)

    @property
    def recovery(self) -> Recovery:
        """What became of a write; undoing writes; the metadata table, built again; a copy of the table."""
        from pyhudi.api.recovery import Recovery

        return Recovery(self.handle)

    @property
    def indexes(self) -> Indexes:
        """Indexes in the metadata table: made, built again, dropped, listed."""
        from pyhudi.api.indexes import Indexes

        return Indexes(self.handle)

    @property
    def source(self) -> Source:
        """Of a bootstrapped table: partitions that came into the folder of its files later."""
        from pyhudi.api.source import Source

        return Source(self.handle)

    @property
    def savepoints(self) -> Savepoints:
        """States of the table that stay readable, some with a name."""
        from pyhudi.api.savepoints import Savepoints

        return Savepoints(self.handle)

    @property
    def catalog(self) -> Catalog:
        """The entries of the table in a Hive metastore or in AWS Glue, by which others find it."""
        from pyhudi.api.catalog import Catalog

        return Catalog(self.handle)
