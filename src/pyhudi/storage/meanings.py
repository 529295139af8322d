"""Messages for errors of a store: its own words, which are beside them, seldom say what to do."""

from __future__ import annotations

from pyhudi.errors import HudiError, PermissionDeniedError, UnavailableError

_MEANINGS: dict[type[HudiError], str] = {
    PermissionDeniedError: "the store does not allow it with these credentials",
    UnavailableError: "the store does not answer, or is too busy; check its endpoint and the network",
}


def cannot(action: str, kind: type[HudiError]) -> str:
    """The message of an error of this kind, where a store refused an action or failed in it."""
    meaning = _MEANINGS.get(kind)
    return f"cannot {action}" if meaning is None else f"cannot {action}: {meaning}"
