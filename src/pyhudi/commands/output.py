"""Output of commands: a table or lines for eyes, or one JSON document for programs; notes on the standard error.

A reader that closes its end of a pipe, as `head` does, is no error: the rest of the output is dropped, and the command
goes on, as a service that has begun must.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, Final, TextIO

from pyhudi.commands.safe_text import safe_text
from pyhudi.commands.table_text import json_value, record_lines, table_lines

if TYPE_CHECKING:
    import pyarrow as pa

    from pyhudi.engine.progress import OnProgress
    from pyhudi.errors import HudiError

_REASONS_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Output:
    """Where a command writes. `as_json`: values as one JSON document instead of text."""

    as_json: bool = False

    def rows(self, table: pa.Table, *, sizes: Collection[str] = (), none: str = "nothing") -> None:
        """Write the rows of an Arrow table. `sizes` and `none`: as in `records`."""
        self.records(table.to_pylist(), sizes=sizes, none=none)

    def records(self, rows: Sequence[Mapping[str, Any]], *, sizes: Collection[str] = (), none: str = "nothing") -> None:
        """Write rows with the same names.

        For eyes, values of the names in `sizes` are shown with their units instead of as bytes; `none` is what eyes see
        where there are no rows.
        """
        if self.as_json:
            self.document(rows)
        elif not rows:
            self.line(none)
        else:
            names = list(rows[0])
            values = [[_shown(row[name], is_size=name in sizes) for name in names] for row in rows]
            self._lines(table_lines(names, values, width=_width(), dots=_dots()))

    def record(self, values: Mapping[str, Any], *, sizes: Collection[str] = ()) -> None:
        """Write one thing with named values, a line for each; those in `sizes` are bytes, shown with their units."""
        if self.as_json:
            self.document(values)
            return
        self._lines(
            record_lines(
                {
                    name.replace("_", " "): _joined(_shown(value, is_size=name in sizes))
                    for name, value in values.items()
                }
            )
        )

    def result(self, value: Any, *, none: str, sizes: Collection[str] = ()) -> None:
        """Write what an operation returns: None, a dataclass, or an Arrow table. `none`: in words, for None."""
        if value is None:
            self.document(None) if self.as_json else self.line(none)
        elif is_dataclass(value) and not isinstance(value, type):
            self.record(asdict(value), sizes=sizes)
        else:
            self.rows(value, sizes=sizes, none=none)

    def plan(self, table: pa.Table, chosen: str, *, stays: str) -> None:
        """Write what would be done; eyes see the rows whose column `chosen` is true, and how many others there are.

        `stays`: what happens to those, as in "12 file slices stay". The most frequent reasons for it follow.
        """
        if self.as_json:
            self.rows(table)
            return
        rows = table.to_pylist()
        taken = [{name: value for name, value in row.items() if name != chosen} for row in rows if row[chosen]]
        self.records(taken, none="nothing would be done")
        reasons = Counter(row.get("reason") for row in rows if not row[chosen])
        if reasons:
            self.line(f"{len(rows) - len(taken):,} {stays}")
        for reason, count in reasons.most_common(_REASONS_MAX):
            if reason:
                self.line(f"    {count:,}: {reason}")

    def document(self, value: Any) -> None:
        """Write a JSON document, whatever `as_json` says. It is ASCII, so safe for a terminal."""
        text = json.dumps(_finite(value), default=json_value, indent=2)
        self._lines([text.replace("\x7f", "\\u007f")])

    def failure(self, error: HudiError) -> None:
        """Write an error for programs, in place of the result; eyes have the note."""
        if self.as_json:
            context = {name: value for name, value in error.context.items() if value is not None}
            said = {"message": error.message, "context": json.loads(json.dumps(_finite(context), default=str))}
            self.document(
                {"error": type(error).__name__, **said, "retry": error.retry.name.lower(), "page": error.page}
            )

    def line(self, text: str) -> None:
        """Write a line for eyes."""
        self._lines([safe_text(text)])

    def text(self, text: str) -> None:
        """Write several lines for eyes."""
        self._lines([safe_text(text, keeps_lines=True)])

    def note(self, text: str) -> None:
        """Write a line that is no part of the result, to the standard error."""
        _write(sys.stderr, f"{safe_text(text, keeps_lines=True)}\n")

    def _lines(self, lines: Iterable[str]) -> None:
        for line in lines:
            _write(sys.stdout, f"{line}\n")


def finish_output() -> None:
    """Write what is buffered, as the interpreter does when it ends, but without an error for a pipe that is closed."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            _drop_the_rest(stream)


def progress_on_terminal() -> OnProgress | None:
    """What shows the progress of long work on the standard error; None if that is no terminal."""
    if not sys.stderr.isatty():
        return None
    import pyhudi  # noqa: PLC0415 - it loads this module

    return pyhudi.show_progress


def _write(stream: TextIO, text: str) -> None:
    try:
        try:
            stream.write(text)
        except UnicodeEncodeError:
            encoding = stream.encoding
            stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        if text.endswith("\n") and stream.isatty():
            stream.flush()
    except BrokenPipeError:
        _drop_the_rest(stream)


def _drop_the_rest(stream: TextIO) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _width() -> int | None:
    """The columns of the terminal; None where the output goes elsewhere, which nothing is shortened for."""
    if not sys.stdout.isatty():
        return None
    given = os.environ.get("COLUMNS", "")
    if given.isascii() and given.isdigit() and int(given):
        return int(given)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or None
    except OSError:
        return None


def _dots() -> str:
    return "…" if "utf" in (sys.stdout.encoding or "").lower() else "..."


def _shown(value: Any, *, is_size: bool) -> Any:
    """A value for eyes."""
    if not is_size or value is None:
        return value
    from pyhudi.api.display import bytes_text  # noqa: PLC0415 - it loads pyarrow, which there is by now

    return bytes_text(value)


def _joined(value: Any) -> Any:
    """Several texts in one line, as eyes read them."""
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return ", ".join(value) or "none"
    return "none" if value is None else value


def _finite(value: Any) -> Any:
    """The value with texts for numbers that JSON does not have: NaN and the infinities."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case Mapping():
            return {str(name): _finite(item) for name, item in value.items()}
        case list() | tuple():
            return [_finite(item) for item in value]
    return value
