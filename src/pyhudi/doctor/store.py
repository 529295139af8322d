"""Findings of a store: which of the promises that tables rely on it keeps, each tried in a scratch folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from pyhudi.doctor.finding import Finding, Severity
from pyhudi.environment import Environment
from pyhudi.errors import AlreadyExistsError, HudiError, StorageError
from pyhudi.storage.open import open_storage
from pyhudi.storage.protocol import Storage

_RACERS = 8
SKEW_WARNING_MS = 2_000
SKEW_ERROR_MS = 60_000
"""A heartbeat's age is the difference of the clocks of a machine and of the store; it may be three minutes."""


def store_findings(uri: str, options: Mapping[str, str], environment: Environment) -> Iterator[Finding]:
    """What the store below a URI does not keep of its promises. Cost: some thirty requests, in a scratch folder.

    Exclusive creation is what makes commits safe; listing after write, replacement and removal are what readers and
    cleaners rely on.
    """
    folder = f"{uri.rstrip('/')}/pyhudi-doctor-{environment.ids.uuid()}"
    storage = open_storage(folder, options)
    try:
        yield from promise_findings(storage, environment)
    except StorageError as error:
        yield Finding(
            severity=Severity.ERROR, problem="store refuses writes", path=uri, detail=str(error), command=None
        )
    finally:
        try:
            storage.delete_folder("")
        except StorageError as error:
            yield Finding(severity=Severity.NOTE, problem="scratch folder stayed", path=folder, detail=str(error))


def promise_findings(storage: Storage, environment: Environment) -> Iterator[Finding]:
    """As `store_findings`, in the root of a store."""
    yield from _exclusive_creation(storage)
    before = environment.clock.now_ms()
    storage.put("listed/one", b"first")
    after = environment.clock.now_ms()
    yield from _consistency(storage)
    info = storage.info("listed/one")
    if info is not None:
        skew = max(before - info.modified_ms, info.modified_ms - after, 0)
        if skew > SKEW_WARNING_MS:
            yield Finding(
                severity=Severity.ERROR if skew > SKEW_ERROR_MS else Severity.WARNING,
                problem="clocks differ",
                path=storage.uri,
                detail=f"the clocks of this machine and of the store differ by {skew / 1000:.1f} s: heartbeats of "
                "living writers may look expired, and instants may come out of order; set the clocks (NTP)",
            )


def _exclusive_creation(storage: Storage) -> Iterator[Finding]:
    def wins(number: int) -> bool:
        try:
            storage.put_if_absent("exclusive/one", str(number).encode())
        except AlreadyExistsError:
            return False
        return True

    try:
        with ThreadPoolExecutor(_RACERS) as pool:
            winners = [number for number, has_won in enumerate(pool.map(wins, range(_RACERS))) if has_won]
        is_kept = len(winners) == 1 and storage.read("exclusive/one") == str(winners[0]).encode()
        detail = f"{len(winners)} of {_RACERS} writers created one object"
    except HudiError as error:
        is_kept, detail = False, str(error)
    if not is_kept:
        yield Finding(
            severity=Severity.ERROR,
            problem="creation is not exclusive",
            path=storage.uri,
            detail=f"{detail}: with several writers commits may be lost; use one writer, or a lock provider outside "
            "the store (hoodie.write.lock.provider)",
        )


def _consistency(storage: Storage) -> Iterator[Finding]:
    def broken(problem: str, detail: str) -> Finding:
        return Finding(severity=Severity.ERROR, problem=problem, path=storage.uri, detail=detail)

    if "one" not in storage.list_names("listed"):
        yield broken("listing lags", "an object that was just written is not listed: readers miss commits")
    storage.put("listed/one", b"second")
    if storage.read("listed/one") != b"second":
        yield broken("reads are stale", "an object that was just replaced has its old content: readers see old states")
    storage.delete("listed/one")
    if storage.info("listed/one") is not None or "one" in storage.list_names("listed"):
        yield broken("removal lags", "an object that was just deleted is still there: rollbacks come undone")
    storage.put("listed/one", b"third")
