"""The errors of pyhudi.

    HudiError                        retry: what the caller may do; context: the values of the message by name
    ├─ InvalidRequestError           the caller must change the call
    │  ├─ ConfigError                an option is wrong, or contradicts the table (also a ValueError)
    │  ├─ SchemaMismatchError        the rows do not fit the table's schema
    │  ├─ RecordKeyError             a record key is null, empty or missing
    │  ├─ AmbiguousChangeError       several rows of a merge's source are about one record
    │  ├─ UnsafePathError            a path would leave the table's folder, or is reserved
    │  ├─ TableNotFoundError         there is no Hudi table at this path
    │  ├─ TableExistsError           there is a Hudi table at this path already
    │  └─ SqlStatementError          a SQL statement on a Hudi table is not understood; shows the place
    ├─ UnsupportedFeatureError       a format feature that this release refuses, by name
    ├─ HistoryNotRetainedError       a cleaner has deleted files of the requested state or range
    ├─ HistoryNotSettledError        a write that began before the requested time is still running
    ├─ TransactionError              nothing of the write became visible
    │  ├─ WriteConflictError         another writer changed the same file groups; run the write again
    │  ├─ LockNotAcquiredError       another process held the table lock for all of the waiting time
    │  ├─ LockLostError              the lease of the table lock expired before the commit
    │  └─ StagedRowsLostError        rows between two steps of the write are lost; run the write again
    ├─ CommitOutcomeUnknownError     it is unknown whether the commit was written
    ├─ StorageError                  the store refused a request or failed
    │  ├─ NotFoundError   AlreadyExistsError   PreconditionFailedError
    │  └─ PermissionDeniedError   OutOfSpaceError   UnavailableError
    ├─ CorruptDataError              stored bytes do not parse; the context has the path and, if known, the offset
    ├─ ValidationError               a validator refused the write, of which nothing is visible
    ├─ SourceError                   the source of the streamer does not answer, or cannot be read
    │  └─ SourceDataLostError        what the streamer has to read next is not in the source any more
    ├─ CatalogError                  a catalog refused a request, or does not answer
    ├─ JavaNotFoundError             Spark needs a Java runtime and there is none
    ├─ WorkerEnvironmentError        a Spark worker's Python lacks what pyhudi needs
    └─ InternalError                 an invariant of pyhudi did not hold: a bug in pyhudi

All errors can be pickled, so that an error in a Spark worker reaches the caller unchanged.
"""

from __future__ import annotations

import enum
from typing import Any

_PAGE = "docs/troubleshooting.md"


class Retry(enum.Enum):
    """What a caller may do after an error."""

    NEVER = "change the call first"
    SAME_INSTANT = "the same call may be repeated as it is"
    NEW_INSTANT = "run the whole operation again, from its input"


class HudiError(Exception):
    """Base of all errors of pyhudi.

    Attributes:
        message: what happened, and what to do.
        context: the values that belong to the message, by name.
        retry: whether, and how, the caller may repeat the operation.
        page: where the documentation says what to do. A traceback shows it below the message.
    """

    retry: Retry = Retry.NEVER

    def __init__(self, message: str, **context: Any) -> None:
        super().__init__(message)
        self.message = message
        self.context: dict[str, Any] = context
        kind = next(error_class for error_class in type(self).__mro__ if error_class.__module__ == __name__)
        self.page = _PAGE if kind is HudiError else f"{_PAGE}#{kind.__name__.lower()}"
        self.add_note(f"see {self.page}")

    def __str__(self) -> str:
        if not self.context:
            return self.message
        values = ", ".join(f"{name}={value!r}" for name, value in self.context.items() if value is not None)
        return f"{self.message} [{values}]" if values else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.context)


def _rebuild(kind: type[HudiError], message: str, context: dict[str, Any]) -> HudiError:
    return kind(message, **context)


class InvalidRequestError(HudiError):
    """The call cannot succeed without a change; nothing was written."""


class ConfigError(InvalidRequestError, ValueError):
    """The value of an option is not valid, or contradicts another option or the table's properties."""


class SchemaMismatchError(InvalidRequestError):
    """Rows of this schema cannot be written to the table: a type is narrower, a column is missing or duplicate."""


class RecordKeyError(InvalidRequestError):
    """A row has no valid record key: the key is null or empty, or all parts of a composite key are null."""


class AmbiguousChangeError(InvalidRequestError):
    """Several rows of the source of a merge are about one record, and nothing says which of them counts."""


class UnsafePathError(InvalidRequestError):
    """A path would leave the table's base path, or names a reserved folder of the table."""


class TableNotFoundError(InvalidRequestError):
    """There is no Hudi table in the folder."""


class TableExistsError(InvalidRequestError):
    """There is a Hudi table in the folder already."""


class SqlStatementError(InvalidRequestError):
    """A SQL statement on a Hudi table is not understood; nothing of it was run.

    The message shows the line and a caret below the place. The context has the `line` and the `column`, both from 1 on,
    and, where a known word resembles what stands there, the `nearest`.
    """


class UnsupportedFeatureError(HudiError):
    """The table or the call needs a feature that this release does not support; the message names the feature."""


class HistoryNotRetainedError(HudiError):
    """A cleaner has deleted files that the read needs. The remaining files would give too few rows.

    The context has the `path` of one of these files and, if it is known, the `earliest` time that can be read. If the
    table object is older than the clean, call its `refresh()` and read again.
    """


class HistoryNotSettledError(HudiError):
    """A write that began before the requested time is still running, so that the result could change later.

    The context names the write (`running`). Read again when it has ended, or request an earlier time.
    """

    retry = Retry.SAME_INSTANT


class TransactionError(HudiError):
    """The write was abandoned; nothing of it is visible."""


class WriteConflictError(TransactionError):
    """Another writer committed a change of a file group that this write changed, too.

    Nothing of this write is visible. Run the whole operation again: it must take a new instant and look up its records
    again, because the other commit may have moved them.
    """

    retry = Retry.NEW_INSTANT


class LockNotAcquiredError(TransactionError):
    """Another process held the table lock for all of the waiting time that the options allow."""

    retry = Retry.SAME_INSTANT


class LockLostError(TransactionError):
    """The lease of the table lock expired before the commit was written."""

    retry = Retry.NEW_INSTANT


class StagedRowsLostError(TransactionError):
    """Rows between two steps of the write are lost, with all the machines that had a copy of them.

    To evaluate the input again could give other rows than those that the write has begun with, so it ends. Nothing of
    it is visible. Run the whole operation again.
    """

    retry = Retry.NEW_INSTANT


class CommitOutcomeUnknownError(HudiError):
    """It is unknown whether the commit was written: the store neither confirmed nor refused the completed instant.

    Before anything else, call `table.recovery.outcome_of(error.context["instant"])`, which finds it out. Running the
    write again without this could write its rows twice.
    """


class StorageError(HudiError):
    """The store refused a request or failed. The context has the `path`."""


class NotFoundError(StorageError):
    """There is no object at this path."""


class AlreadyExistsError(StorageError):
    """There is an object at this path already."""


class PreconditionFailedError(StorageError):
    """The object has another version than the caller expected."""


class PermissionDeniedError(StorageError):
    """The store denied access."""


class OutOfSpaceError(StorageError):
    """The disk is full, or a quota is used up."""


class UnavailableError(StorageError):
    """The store did not answer, or was too busy."""

    retry = Retry.SAME_INSTANT


class CorruptDataError(HudiError):
    """Stored bytes do not parse: they are truncated, empty or damaged. The call skipped and guessed nothing."""


class ValidationError(HudiError):
    """A pre-commit validator refused a write (`hoodie.precommit.validators`). Nothing of it is visible.

    The context has the `validator` and its `reason`.
    """


class SourceError(HudiError):
    """The source of the streamer does not answer, or has something that cannot be read. Nothing was written.

    The context says where in the source: the `path` of a file, or `topic`, `partition` and `offset` of a message.
    """

    retry = Retry.SAME_INSTANT


class SourceDataLostError(SourceError):
    """What the streamer has to read next is not in the source any more. Nothing was written, nothing was passed over.

    The context has the range that is lost. The message says how to accept the loss.
    """

    retry = Retry.NEVER


class CatalogError(HudiError):
    """A catalog (a Hive metastore, AWS Glue) refused a request, or does not answer. The table itself is untouched.

    After a write: the write is committed and must not be run again; the next sync makes the catalog right.
    """


class JavaNotFoundError(HudiError):
    """There is no Java 17 or newer for Spark: set JAVA_HOME, put `java` on PATH, or `pip install 'pyhudi[java]'`."""


class WorkerEnvironmentError(HudiError):
    """The Python of a Spark worker lacks pyhudi or one of its dependencies."""


class InternalError(HudiError):
    """An invariant of pyhudi did not hold. This is a bug: please report it."""


class MetadataTableWarning(UserWarning):
    """A read or write did without the metadata table, or an index, that is behind the table, damaged or missing."""


class CatalogWarning(UserWarning):
    """A table has changed, and its entry in the catalog could not follow."""


class DamagedFileWarning(UserWarning):
    """A read left out missing or damaged files, because an option allows it."""
