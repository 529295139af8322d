"""What pyhudi asks of a store, and nothing more.

A `Storage` is one folder tree: the base path of a table. Every path in this interface is relative to it, with
`/` between its parts and no leading slash; `""` is the root. Stores differ in what they promise, so the
protocol promises only what all of them can keep (see `docs/design/storage.md`).
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
    """How to open a store again in another process: picklable, and its `repr` never shows `options`."""

    uri: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


class Storage(Protocol):
    """A folder tree of objects. Thread-safe.

    Errors are `pyhudi.errors.StorageError` with the full `path` in the context, and `UnsafePathError` for a
    path that is not plainly relative (`pyhudi.storage.paths`). A put that ends in another error than
    `AlreadyExistsError` or `PreconditionFailedError` may have happened all the same: look before doing
    anything else.
    """

    @property
    def spec(self) -> StorageSpec:
        """How to open this store again elsewhere."""
        ...

    @property
    def uri(self) -> str:
        """The root as a URI that Spark and Hadoop understand: `file:/tmp/t`, `s3://bucket/t`."""
        ...

    def read(self, path: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """The object's bytes, or a range of them; what lies past the end is left out. One request."""
        ...

    def open_input(self, path: str) -> Any:
        """A seekable binary file for `pyarrow.parquet` and `pyarrow.ipc`; the caller closes it.

        Errors while reading from it may be plain `OSError`: local files are read by Arrow's own code.
        """
        ...

    def open_output(self, path: str, *, durable: bool = True) -> IO[bytes]:
        """A new object to stream into. Not readable as a whole before `close`, durable after it.

        Use it as a context manager: leaving the block with an error removes what was written. A sink for
        `pyarrow.parquet.ParquetWriter` and `pyarrow.ipc.new_file`, neither of which closes it. Only for files
        with unique names; nothing on the timeline is written this way. A name that is taken raises
        `AlreadyExistsError` where the store can tell (local disk, memory). `durable=False` is for files that
        no committed state needs: a power failure may lose or tear them.
        """
        ...

    def put(self, path: str, data: bytes, *, durable: bool = True) -> None:
        """Create or replace the object: readers see the old or the new content, never a mixture.

        Durable at return, unless `durable=False` says that no committed state needs the object.
        """
        ...

    def put_if_absent(self, path: str, data: bytes) -> None:
        """Create the object with its content in one step, or raise `AlreadyExistsError`. Durable at return.

        The commit primitive (DESIGN D9). Of any number of callers exactly one succeeds, if `creates_exclusively`.
        """
        ...

    def creates_exclusively(self) -> bool:
        """Whether of several `put_if_absent` at one moment only one succeeds. Cost: a few requests, once per store.

        Where it is not so, a writer has to be alone or needs a lock elsewhere. Source: reliability.md 3; mission rows
        S5-16, S5-26.
        """
        ...

    def put_if_match(self, path: str, data: bytes, *, etag: str) -> str:
        """Replace the object if it is still the version `etag`, and return the new version's tag.

        Raises `PreconditionFailedError` otherwise, also where there is no object any more. Atomic among
        callers of `put_if_match`, not against `put`. A store that cannot do it raises
        `UnsupportedFeatureError`.
        """
        ...

    def read_with_etag(self, path: str) -> tuple[bytes, str]:
        """The object's bytes with the tag that `put_if_match` takes."""
        ...

    def info(self, path: str) -> FileInfo | None:
        """Size and time of one object, or None where there is none."""
        ...

    def wait_for_writer(self, path: str) -> bool:
        """Let a moment pass if another program may not have written all of a file yet; whether that may be.

        Objects are always whole, and so is all that pyhudi puts. But other programs fill a local file after its name
        is there. Cost: one request, and some milliseconds, for a file of the last seconds.
        """
        ...

    def list_folder(self, path: str) -> FolderListing:
        """The direct children of a folder; empty where there is none. Local disk lists empty folders, too."""
        ...

    def list_names(self, path: str) -> tuple[str, ...]:
        """The names of the files in a folder, sorted; cheaper than `list_folder` where sizes take a look at each."""
        ...

    def list_recursive(self, path: str) -> tuple[FileInfo, ...]:
        """All objects below a folder, sorted by path; empty where there is none."""
        ...

    def delete(self, path: str) -> None:
        """Remove the object; nothing happens where there is none."""
        ...

    def delete_folder(self, path: str) -> None:
        """Remove everything below a folder, and the folder; nothing happens where there is none."""
        ...
