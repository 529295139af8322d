"""SqlSource and SqlFileBasedSource: the rows of a query, all of them each time."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import pyarrow as pa

from pyhudi.environment import SYSTEM
from pyhudi.errors import SourceError, UnsupportedFeatureError
from pyhudi.streamer.checkpoints import Checkpoint
from pyhudi.streamer.sources.protocol import Pull, Rows


@dataclass(frozen=True, slots=True)
class QuerySource:
    """A query in the SQL of DuckDB. `emits_checkpoint`: whether its commits keep the time of the query."""

    query: str
    emits_checkpoint: bool

    def pull(self, after: Checkpoint, *, limit: int | None) -> Pull | None:
        """See `Source.pull`; everything is new each time, and there is no limit. Cost: none."""
        del after, limit
        text = str(SYSTEM.clock.now_ms()) if self.emits_checkpoint else None
        return Pull(reached=Checkpoint(text=text), read=functools.partial(_rows, self.query), items=1)


def _rows(query: str, wanted: pa.Schema | None, stored: pa.Schema | None) -> Rows:
    del stored
    try:
        import duckdb  # noqa: PLC0415 - few streamers need it
    except ImportError as error:
        raise UnsupportedFeatureError("a source of SQL needs DuckDB: pip install 'pyhudi[duckdb]'") from error
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        try:
            rows = pa.RecordBatchReader.from_stream(connection.sql(query)).read_all()
        except duckdb.Error as error:
            raise SourceError(f"the query of the source failed: {error}", sql=query) from error
    return rows if wanted is None else rows.select(wanted.names).cast(wanted)
