"""What is fuzzed: a parser, inputs that it takes, how they are damaged, and what must hold of the outcome."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from pyhudi.errors import CorruptDataError, HudiError, InvalidRequestError, UnsupportedFeatureError

PATH = "table/part/file"
"""The file that every input pretends to be; errors have to name it."""
INPUT_BYTES_MAX = 64 * 1024
ERROR_TEXT_MAX = 16 * 1024
"""Characters of an error: damage of a gigabyte must not become a log line of a gigabyte."""
_REFUSALS = (CorruptDataError, UnsupportedFeatureError, InvalidRequestError)

Mutator = Callable[[Random, bytes, bytes], bytes]
"""Makes an input from two that are valid: the one to damage, and one to take pieces from."""


class WrongOutcomeError(AssertionError):
    """The parser gave a value, or an error, that it must not give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One parser.

    `check` parses an input, and raises `WrongOutcomeError` where the value is not what the input says: mostly where it
    does not survive encoding and decoding. `names_path`: whether errors must name `PATH`. `arrow_allocates`: Arrow's
    Parquet reader believes sizes in page headers, which nobody else sees; that it then gets no memory is a typed error,
    and counts as one. `share`: how many inputs it gets, compared with others; less where one takes long.
    """

    name: str
    seeds: Callable[[], tuple[bytes, ...]]
    mutate: Mutator
    check: Callable[[bytes], None]
    names_path: bool = True
    arrow_allocates: bool = False
    share: float = 1.0


def judge(target: Target, data: bytes) -> bool:
    """Whether the parser took the input; False where it refused it as it should.

    Raises:
        WrongOutcomeError: a wrong value, or an error that does not say what it should.
        BaseException: whatever else the parser raised: all of it is a defect.
    """
    try:
        target.check(data)
    except _REFUSALS as error:
        _check_error(target, error)
        return False
    return True


def require(condition: bool, message: str) -> None:
    """Raise `WrongOutcomeError` unless the condition holds."""
    if not condition:
        raise WrongOutcomeError(message)


def _check_error(target: Target, error: HudiError) -> None:
    if not target.arrow_allocates:
        for cause in _causes(error):
            require(not isinstance(cause, MemoryError), f"{type(error).__name__} hides that memory ran out")
    require(str(pickle.loads(pickle.dumps(error))) == str(error), "the error does not survive pickling")
    if target.names_path:
        require(PATH in str(error.context.get("path")), f"the error does not name the file: {error!s:.300}")
        require(len(str(error)) <= ERROR_TEXT_MAX, f"the error has {len(str(error))} characters")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def joined(*parts: bytes) -> bytes:
    """An input of several parts, such as a schema and records: each but the last behind its length."""
    return b"".join([*(struct.pack(">I", len(part)) + part for part in parts[:-1]), parts[-1]])


def split(data: bytes, count: int) -> list[bytes]:
    """The parts of an input; whatever the bytes are, there are `count` of them."""
    parts = []
    for _ in range(count - 1):
        (size,) = struct.unpack(">I", data[:4].ljust(4, b"\0"))
        parts.append(data[4 : 4 + size])
        data = data[4 + size :]
    return [*parts, data]


def text_of(data: bytes) -> str:
    """An input as text. Any bytes are some text, and half a surrogate pair, which a Python string can hold, is too."""
    return (
        data.decode("utf-8", "surrogatepass" if b"\xed" in data else "replace")
        if _is_text(data)
        else data.decode("latin-1")
    )


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True
