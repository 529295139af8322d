"""Making a failing input small."""

from __future__ import annotations

from collections.abc import Callable


def minimised(data: bytes, fails: Callable[[bytes], bool], *, tries: int) -> bytes:
    """A shorter input that still fails, found by leaving ranges out, largest first, in so many tries."""
    size = len(data) // 2
    while size:
        at = 0
        while at < len(data):
            if not tries:
                return data
            tries -= 1
            shorter = data[:at] + data[at + size :]
            if fails(shorter):
                data = shorter
            else:
                at += size
        size //= 2
    return data
