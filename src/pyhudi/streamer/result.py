"""`StreamerResult`: the outcome of a run of the streamer, for its caller."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pyhudi.write.result import WriteResult


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestedBatch:
    """A batch that was committed.

    `items` counts the files or messages that were read, `failed` the records of them that went to the error table;
    `checkpoint` is where the source was after them, as the commit
    keeps it; `write` says what the commit did.
    """

    items: int
    failed: int = 0
    checkpoint: str | None
    write: WriteResult


class Idle(Enum):
    """Why a round made no commit."""

    NOTHING_NEW = "nothing new in the source"
    SERVICES_BEHIND = "too many table services are planned and not done"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamerResult:
    """What a run of the streamer did.

    Attributes:
        batches: how many batches it committed.
        items: how many files or messages they had.
        failed: how many records of them went to the error table.
        rows: how many rows they inserted, updated or deleted.
        checkpoint: where the source is now, as the table keeps it; None where it keeps none.
        last: the last batch; None where there was nothing new.
    """

    batches: int = 0
    items: int = 0
    failed: int = 0
    rows: int = 0
    checkpoint: str | None = None
    last: IngestedBatch | None = None

    def after(self, batch: IngestedBatch) -> StreamerResult:
        """The result when this batch has been committed, too."""
        write = batch.write
        return StreamerResult(
            batches=self.batches + 1,
            items=self.items + batch.items,
            failed=self.failed + batch.failed,
            rows=self.rows + write.inserted + write.updated + write.deleted,
            checkpoint=batch.checkpoint,
            last=batch,
        )
