"""Every error that pyhudi raises.

    HudiError                        retry: what a caller may do; context: named values of the message
    ├─ InvalidRequestError           the caller must change the call
    │  ├─ ConfigError                an option is wrong, or contradicts the table (also a ValueError)
    │  ├─ SchemaMismatchError        the rows do not fit the table's schema
    │  ├─ RecordKeyError             a record key is null, empty or missing
    │  ├─ UnsafePathError            a path would leave the table's folder, or is reserved
    │  ├─ TableNotFoundError         there is no Hudi table at this path
    │  └─ TableExistsError           there is one already
    ├─ UnsupportedFeatureError       a format feature that this release refuses, by name
    ├─ HistoryNotRetainedError       cleaners have deleted files of the state or range that is asked for
    ├─ HistoryNotSettledError        a write that began before the time asked for is still running
    ├─ TransactionError              nothing of the write became visible
    │  ├─ WriteConflictError         another writer changed the same file groups; run the write again
    │  ├─ LockNotAcquiredError       the table lock stayed taken
    │  └─ LockLostError              the lease of the table lock ran out before the commit
    ├─ CommitOutcomeUnknownError     the last put of a commit neither succeeded nor failed for certain
    ├─ StorageError                  the store refused or failed
    │  ├─ NotFoundError   AlreadyExistsError   PreconditionFailedError
    │  └─ PermissionDeniedError   OutOfSpaceError   UnavailableError
    ├─ CorruptDataError              bytes that do not parse; names path and, where known, offset
    ├─ JavaNotFoundError             Spark needs a Java runtime and there is none
    ├─ WorkerEnvironmentError        a Spark worker's Python lacks what pyhudi needs
    └─ InternalError                 an invariant of ours did not hold: a bug in pyhudi

An error crosses process borders (Spark workers) unchanged: all of them pickle.
"""

from __future__ import annotations

import enum
from typing import Any


class Retry(enum.Enum):
    """What a caller may do after an error."""

    NEVER = "change the call first"
    SAME_INSTANT = "the same call may be repeated as it is"
    NEW_INSTANT = "run the whole operation again, from its input"


class HudiError(Exception):
    """Base of all errors of pyhudi.

    The text is one sentence of what happened and what to do; `context` holds the values in it by name.
    """

    retry: Retry = Retry.NEVER

    def __init__(self, message: str, **context: Any) -> None:
        super().__init__(message)
        self.message = message
        self.context: dict[str, Any] = context

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
    """The call cannot succeed as it is; nothing was written."""


class ConfigError(InvalidRequestError, ValueError):
    """An option has no legal value, or contradicts another one or the table's own properties."""


class SchemaMismatchError(InvalidRequestError):
    """The rows' schema cannot be written to the table: a narrowed type, a missing or a duplicate column."""


class RecordKeyError(InvalidRequestError):
    """A row has no usable record key (null, empty, or all parts of a composite key null)."""


class UnsafePathError(InvalidRequestError):
    """A path would leave the table's base path, or names a reserved folder of it."""


class TableNotFoundError(InvalidRequestError):
    """The folder holds no Hudi table."""


class TableExistsError(InvalidRequestError):
    """The folder holds a Hudi table already."""


class UnsupportedFeatureError(HudiError):
    """The table or the call needs a feature that this release does not have; the message names it."""


class HistoryNotRetainedError(HudiError):
    """Files that the read needs were deleted by a cleaner; what is left would be fewer rows than there were.

    The context names one of them (`path`), and the `earliest` time that can be read, where it is known. A table that
    was opened before the clean gives its rows again after `refresh()`.
    """


class HistoryNotSettledError(HudiError):
    """A write that began before the time asked for is still running: the same question would get two answers.

    The context names the write (`running`). Ask again when it has ended, or ask for an earlier time.
    """

    retry = Retry.SAME_INSTANT


class TransactionError(HudiError):
    """The write was given up; nothing of it is visible."""


class WriteConflictError(TransactionError):
    """Another writer completed a commit on a file group that this one also changed.

    Nothing of this write is visible. Run the operation again: it must take a new instant and look its
    records up again, so reusing the old plan is wrong.
    """

    retry = Retry.NEW_INSTANT


class LockNotAcquiredError(TransactionError):
    """The table lock stayed taken for as long as the options let us wait."""

    retry = Retry.SAME_INSTANT


class LockLostError(TransactionError):
    """The lease of the table lock ran out before the commit was written."""

    retry = Retry.NEW_INSTANT


class CommitOutcomeUnknownError(HudiError):
    """The store left us in doubt whether the completed instant was written; look before doing anything else."""


class StorageError(HudiError):
    """The store refused or failed; `path` in the context says where."""


class NotFoundError(StorageError):
    """There is nothing at this path."""


class AlreadyExistsError(StorageError):
    """`put_if_absent` found an object at this path."""


class PreconditionFailedError(StorageError):
    """`put_if_match` found another version of the object than the caller knew."""


class PermissionDeniedError(StorageError):
    """The store denied access."""


class OutOfSpaceError(StorageError):
    """The disk is full, or a quota is used up."""


class UnavailableError(StorageError):
    """The store did not answer, or answered that it is busy."""

    retry = Retry.SAME_INSTANT


class CorruptDataError(HudiError):
    """Stored bytes do not parse: truncated, empty or damaged. Nothing was skipped or guessed."""


class JavaNotFoundError(HudiError):
    """Spark needs Java 17 or newer: set JAVA_HOME, put `java` on PATH, or `pip install 'pyhudi[java]'`."""


class WorkerEnvironmentError(HudiError):
    """The Python of a Spark worker lacks pyhudi or one of its dependencies."""


class InternalError(HudiError):
    """An invariant of pyhudi did not hold; please report it."""


class DamagedFileWarning(UserWarning):
    """A read left out files that are missing or damaged, as an option asked it to."""
