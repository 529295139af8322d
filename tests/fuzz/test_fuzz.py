"""The part of fuzzing that every test run does: a few inputs of every parser, and all that once failed.

`make fuzz` does the rest. See `docs/design/fuzzing.md`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fuzz import campaign as campaigns
from tests.fuzz import guard
from tests.fuzz.campaign import Report, carry_out, replays, shared_out
from tests.fuzz.inputs import input_of
from tests.fuzz.minimise import minimised
from tests.fuzz.registry import TARGETS
from tests.fuzz.target import PATH, Target, WrongOutcomeError, judge, require

from pyhudi.errors import CorruptDataError, InternalError

CORPUS = Path(__file__).parent / "corpus"
INPUTS = 9_000
SEED = 20261121


def kept() -> list[Path]:
    """The inputs that once failed, each in the folder of its target."""
    return sorted(path for path in CORPUS.rglob("*") if path.is_file())


def shown(report: Report) -> list[str]:
    return [f"{found.target}: {found.signature}: {found.data[:200]!r}" for found in report.findings.values()]


@pytest.fixture(scope="module")
def campaign() -> Report:
    return carry_out(shared_out(INPUTS, list(TARGETS), SEED), workers=1)


def test_damaged_inputs_are_read_or_refused_with_a_typed_error(campaign):
    assert shown(campaign) == []
    assert campaign.inputs >= INPUTS


def test_every_parser_takes_some_inputs_and_is_given_many(campaign):
    """A parser that refuses everything is not tested beyond its first check."""
    assert {name for name, counts in campaign.counts.items() if not counts["accepted"]} == set()
    assert campaign.counts.keys() == TARGETS.keys()


def test_inputs_that_once_failed_are_read_or_refused_with_a_typed_error():
    files = [(path.parent.name, path.read_bytes()) for path in kept()]
    report = carry_out(replays(files), workers=1)
    assert shown(report) == []
    assert report.inputs == len(files) > 0


@pytest.mark.parametrize("name", ["commit", "log-frames", "avro-records", "date-pattern"])
def test_same_seed_and_number_give_the_same_input(name):
    numbers = (0, 1, 50_000, 50_001)
    inputs = [input_of(TARGETS[name], 5, number) for number in numbers]
    assert inputs == [input_of(TARGETS[name], 5, number) for number in numbers]
    assert inputs[2:] != [input_of(TARGETS[name], 6, number) for number in numbers[2:]]


# ----- that the harness sees what it is for: each of these parsers has one defect -----------------------------------


def defective(check) -> Target:
    return Target(name="defective", seeds=lambda: (b"x",), mutate=lambda _rng, data, _other: data, check=check)


def out_of_memory(_: bytes) -> None:
    bytearray(2 * guard.MEMORY_BYTES_MAX)


def out_of_memory_in_secret(data: bytes) -> None:
    try:
        out_of_memory(data)
    except MemoryError as error:
        raise CorruptDataError("damaged", path=PATH) from error


def endless(_: bytes) -> None:
    while True:
        pass


def untyped(_: bytes) -> None:
    raise KeyError("name")


def internal(_: bytes) -> None:
    raise InternalError("a bug")


def nameless(_: bytes) -> None:
    raise CorruptDataError("damaged")


def chatty(_: bytes) -> None:
    raise CorruptDataError("damaged", path=PATH, content="x" * 100_000)


def wrong(_: bytes) -> None:
    require(False, "another value")


@pytest.mark.parametrize(
    ("check", "name"),
    [
        (out_of_memory, "MemoryError"),
        (out_of_memory_in_secret, "WrongOutcomeError"),
        (endless, "HangError"),
        (untyped, "KeyError"),
        (internal, "InternalError"),
        (nameless, "WrongOutcomeError"),
        (chatty, "WrongOutcomeError"),
        (wrong, "WrongOutcomeError"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_defect_of_a_parser_is_a_failure(check, name):
    with guard.prepared():
        outcome = guard.run(defective(check), b"x")
    assert isinstance(outcome, guard.Failure)
    assert outcome.signature.startswith(name)


def test_refusal_and_value_are_none():
    def refusing(_: bytes) -> None:
        raise CorruptDataError("damaged", path=PATH)

    with guard.prepared():
        assert guard.run(defective(refusing), b"x") is guard.Outcome.REFUSED
        assert guard.run(defective(lambda _: None), b"x") is guard.Outcome.ACCEPTED
    with pytest.raises(WrongOutcomeError):
        judge(defective(wrong), b"x")


def test_crash_of_the_process_is_a_finding_and_the_rest_of_the_job_is_done(monkeypatch):
    # Ends by itself as native code does that reads where nothing is, with the fourth input in hand.
    program = (
        "import os, sys; from tests.fuzz import guard, worker\n"
        "parse = guard.run\n"
        "fatal = sys.argv[2].encode()\n"
        "guard.run = lambda target, data: os.kill(os.getpid(), 11) if data == fatal else parse(target, data)\n"
        "worker.main(sys.argv[1])"
    )
    fatal = input_of(TARGETS["storage-path"], SEED, 3)
    monkeypatch.setattr(campaigns, "WORKER", ("-c", program))
    monkeypatch.setattr(campaigns, "WORKER_ARGUMENTS", (fatal.decode(),))
    report = carry_out(shared_out(8, ["storage-path"], SEED), workers=1)
    (found,) = report.findings.values()
    assert (found.target, found.number, found.data) == ("storage-path", 3, fatal)
    assert found.signature.startswith("crash (-11)")
    assert report.inputs == 8


def test_minimised_input_has_only_what_the_failure_needs():
    assert minimised(b"..." * 30 + b"bug" + b"---" * 30, lambda data: b"bug" in data, tries=1000) == b"bug"
