"""The interface between pyhudi and a store.

A `Storage` is one folder tree: the base path of a table. Every path in this interface is relative to it, with
`/` between its parts and no leading slash; `""` is the root. Stores give different guarantees. The protocol promises
only those that all of them give (see `docs/design/storage.md`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Protocol


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One object: `path` relative to the root, `size` in bytes, `modified_ms` since the epoch by the store's clock."""

    path: str
    size: int
    modified_ms: int

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class FolderListing:
    """The direct children of a folder, both sorted by name. `folders` are full relative paths."""

    files: tuple[FileInfo, ...]
    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StorageSpec:
    """The URI and the options from which another process opens the same store.

    Picklable. `options` may hold credentials; `repr` never shows them.
    """

    uri: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


class Storage(Protocol):
    """A folder tree of objects. Thread-safe.

    Every method raises `pyhudi.errors.StorageError`, with the full `path` in the context, if the store fails, and
    `UnsafePathError` for a path that `pyhudi.storage.paths` refuses. If a put fails with another error than
    `AlreadyExistsError` or `PreconditionFailedError`, the object may have been written all the same: read it before
    doing anything else.
    """

    @property
    def spec(self) -> StorageSpec:
        """The specification from which another process opens this store (`pyhudi.storage.open.open_spec`)."""
        ...

    @property
    def uri(self) -> str:
        """The root as a URI that Spark and Hadoop understand: `file:/tmp/t`, `s3://bucket/t`."""
        ...

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """The object's bytes, or those of a range. A range may reach past the end. Cost: one request.

        Raises:
            NotFoundError: there is no object at this path.
        """
        ...

    def open_input(self, path: str) -> Any:
        """A seekable binary file for `pyarrow.parquet` and `pyarrow.ipc`; the caller closes it.

        Reading from it may raise a plain `OSError`, because Arrow's own code reads local files.

        Raises:
            NotFoundError: there is no object at this path.
        """
        ...

    def open_output(self, path: str, *, durable: bool = True) -> IO[bytes]:
        """A binary stream into a new object, which is complete and durable after `close`.

        Use it as a context manager: leaving the block with an error removes the object. It is a sink for
        `pyarrow.parquet.ParquetWriter` and `pyarrow.ipc.new_file`, neither of which closes it. Use it only for files
        with unique names, never for files of the timeline: other readers may see a part of the object before `close`.
        `durable=False` is for files that no committed state needs: a power failure may lose or truncate them.

        Raises:
            AlreadyExistsError: there is an object at this path. Object stores do not detect this.
        """
        ...

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Create or replace the object. Readers see the old or the new content, never a mixture.

        The object is durable when the call returns. `durable=False` is for objects that no committed state needs.
        """
        ...

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Create the object with its content in one step. The object is durable when the call returns.

        Commits rely on this call. If `creates_exclusively`, exactly one of any number of concurrent callers succeeds.

        Raises:
            AlreadyExistsError: there is an object at this path.
        """
        ...

    def creates_exclusively(self) -> bool:
        """Whether exactly one of several concurrent `put_if_absent` of the same path succeeds.

        On a store without this guarantee a table needs either a single writer or a lock provider outside the store.
        Cost: a few requests, once per store.
        """
        ...

    def put_if_match(self, path: str, data: bytes, *, etag: str) -> str:
        """Replace the object if it still has the version `etag`, and return the new version's tag.

        Atomic among callers of `put_if_match`, but not among callers of `put_if_match` and `put`.

        Raises:
            PreconditionFailedError: the object has another version, or was removed.
            UnsupportedFeatureError: the store has no conditional replacement.
        """
        ...

    def read_with_etag(self, path: str) -> tuple[bytes, str]:
        """The object's bytes, and the tag of its version for `put_if_match`.

        Raises:
            NotFoundError: there is no object at this path.
        """
        ...

    def info(self, path: str) -> FileInfo | None:
        """Size and modification time of an object, or None if there is none."""
        ...

    def wait_for_writer(self, path: str) -> bool:
        """Wait some milliseconds if another program may still be writing the file, and return whether it may be.

        Objects of an object store are always complete, and so is every file that pyhudi puts. But other programs
        create a local file first and write its content afterwards. Only a file that was modified within the last
        seconds can be incomplete. Cost: one request.
        """
        ...

    def list_folder(self, path: str) -> FolderListing:
        """The direct children of a folder; empty if the folder does not exist.

        Local disk and HDFS list empty folders, too.
        """
        ...

    def list_names(self, path: str) -> tuple[str, ...]:
        """The sorted names of the files in a folder. On local disk `list_folder` costs more: a stat per file."""
        ...

    def list_recursive(self, path: str) -> tuple[FileInfo, ...]:
        """All objects below a folder, sorted by path; empty if the folder does not exist."""
        ...

    def delete(self, path: str) -> None:
        """Remove the object, if there is one."""
        ...

    def delete_folder(self, path: str) -> None:
        """Remove a folder with all objects below it, if it exists."""
        ...
