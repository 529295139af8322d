"""How inputs are damaged. Everything is a function of a `Random`, so that a seed and a number give the input again."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from random import Random
from typing import Any

from tests.fuzz.target import INPUT_BYTES_MAX, Mutator, joined, split

_NUMBERS = (
    *(0, 1, 2, 3, 16, 64, 127, 128, 255, 256, 1024, 4096, 32767, 32768, 65535, 65536, -1, -2, -128, -32768),
    *(2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**62, 2**63 - 1, -(2**63), 2**64 - 1, 2**24, 2**28, 2**30),
)
_MAGICS = re.compile(
    rb"#HUDI#|Obj\x01|DATABLK\*|METABLKc|FILEINF2|IDXROOT2|IDXLEAF2|TRABLK\"\$|PAR1|avro\.schema|\n|,|/|\{|\}"
)
_TEXTS = (
    *(b"\0", b"\n", b"\r", b"\t", b"\\", b"\\u", b"\\ud83d", b"\\\n", b"=", b":", b"#", b"!", b" ", b"'", b'"', b"%"),
    *(b"..", b"../../", b"/", b"//", b".hoodie/", b"%2e%2e", b"%2F", b"C:\\", b"file:///", b"~", b"*", b"?", b"."),
    *("\u0661\u0662".encode(), "\u00b2".encode(), "\uff0f".encode(), "\u202e".encode(), "\U0001f600".encode()),
    *(b"\xed\xa0\x80", b"\xff", b"\xc3", b"\xef\xbb\xbf", b"-", b"+", b"_", b"0", b"9" * 30, b"9" * 5000, b"1e999"),
    *(b"NaN", b"null", b"true", b"{}", b"[]", b"[" * 3000, b'{"a":' * 3000, b"(" * 200, b"(a+)+$", b"a{99999999999}"),
    *(b"\\" * 3000, b"a" * 3000, b"''", b"yyyyMMdd", b"S" * 1200, b"y" * 30, b"Z", b"00000000000000"),
)
_ATOMS: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, -(2**63) - 1, 2**80, 0.5, -0.0, float("nan"), float("inf"), 1e308),
    *("", "\ud800", "\0", "..", "../../x", "/etc", ".hoodie/x", "a" * 3000, "0", "9" * 4500, "null", "\u202e"),
    *([], {}, [[]], [None], {"": None}, {"a": {}}, "record", "array", "long", "bytes", ["null", "null"], ["null"]),
)


def several(*mutators: Mutator) -> Mutator:
    """One of these, with the same probability each."""

    def mutate(rng: Random, data: bytes, other: bytes) -> bytes:
        return rng.choice(mutators)(rng, data, other)

    return mutate


def in_parts(*mutators: Mutator) -> Mutator:
    """Damage one part of an input of several (`joined`), each part in its own way; rarely the parts of two inputs are
    put together."""

    def mutate(rng: Random, data: bytes, other: bytes) -> bytes:
        parts, others = split(data, len(mutators)), split(other, len(mutators))
        if rng.random() < 0.1:
            return joined(*(rng.choice(pair) for pair in zip(parts, others, strict=True)))
        for number in rng.sample(range(len(parts)), k=rng.choice((1, 1, 1, len(parts)))):
            parts[number] = mutators[number](rng, parts[number], others[number])
        return joined(*parts)

    return mutate


def as_it_is(_: Random, data: bytes, __: bytes) -> bytes:
    """No damage: for parts of which only others are to be damaged."""
    return data


def binary(rng: Random, data: bytes, other: bytes) -> bytes:
    """A few damages that need not know the format."""
    return _some(rng, data, other, _BINARY)


def text(rng: Random, data: bytes, other: bytes) -> bytes:
    """A few damages, most of them to characters and words."""
    return _some(rng, data, other, _TEXT)


def json_text(rng: Random, data: bytes, other: bytes) -> bytes:
    """Damage to the values in a JSON text, which stays one."""
    try:
        value, donor = json.loads(data), json.loads(other)
    except (ValueError, RecursionError):
        return text(rng, data, other)
    for _ in range(_times(rng)):
        value = json_value(rng, value, donor)
    return json.dumps(value).encode()[:INPUT_BYTES_MAX]


def json_value(rng: Random, value: Any, donor: Any) -> Any:
    """The value with one place of it changed."""
    children = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    if not children or rng.random() < 0.12:
        return _other_value(rng, value, donor)
    place, child = rng.choice(children)
    changed: Any = value.copy()
    match rng.randrange(8):
        case 0:
            del changed[place]
        case 1 if isinstance(value, list):
            changed.insert(rng.randrange(len(value) + 1), rng.choice(value))
        case 1:
            changed[_picked(rng, donor) if rng.random() < 0.5 else rng.choice(("", "name", "type", "\0", "a" * 99))] = (
                child
            )
        case _:
            changed[place] = json_value(rng, child, donor)
    return _with_text_keys(changed)


def _with_text_keys(value: Any) -> Any:
    return {str(key): child for key, child in value.items()} if isinstance(value, dict) else value


def _picked(rng: Random, donor: Any) -> Any:
    """The name of some place in the donor."""
    names = list(donor) if isinstance(donor, dict) else []
    return str(rng.choice(names)) if names else "x"


def _other_value(rng: Random, value: Any, donor: Any) -> Any:
    match rng.randrange(6):
        case 0 if isinstance(value, int):
            return value + rng.choice((-1, 1))
        case 1 if isinstance(value, str):
            return text(rng, value.encode("utf-8", "surrogatepass"), b"").decode("latin-1")
        case 2:
            return [value]
        case 3:
            return {rng.choice(("type", "a", "items")): value}
        case 4:
            return _somewhere(rng, donor)
    return rng.choice(_ATOMS)


def _somewhere(rng: Random, donor: Any) -> Any:
    """Some value inside of the donor."""
    while isinstance(donor, (dict, list)) and donor and rng.random() < 0.8:
        donor = rng.choice(list(donor.values()) if isinstance(donor, dict) else donor)
    return donor


def flips(rng: Random, data: bytes, other: bytes) -> bytes:
    """One to four flipped bits and nothing else: what a disk does, and what a checksum must see."""
    del other
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4)) if data else 0):
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
    return bytes(damaged)


# ----- damages --------------------------------------------------------------------------------------------------------

_Damage = Callable[[Random, bytes, bytes], bytes]


def _times(rng: Random) -> int:
    return rng.choice((1, 1, 1, 1, 2, 2, 3, 5))


def _some(rng: Random, data: bytes, other: bytes, damages: Sequence[_Damage]) -> bytes:
    for _ in range(_times(rng)):
        data = rng.choice(damages)(rng, data, other)[:INPUT_BYTES_MAX]
    return data


def _range(rng: Random, data: bytes) -> tuple[int, int]:
    """A range of the data, most often a short one."""
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 2, 4, 8, 16, rng.randrange(len(data) + 1))))


def _flip(rng: Random, data: bytes, other: bytes) -> bytes:
    return flips(rng, data, other)


def _byte(rng: Random, data: bytes, _: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + bytes([rng.choice((0, 1, 2, 3, 0x7F, 0x80, 0xFF, rng.randrange(256)))]) + data[at + 1 :]


def _random_bytes(rng: Random, data: bytes, _: bytes) -> bytes:
    start, end = _range(rng, data)
    return data[:start] + rng.randbytes(rng.choice((end - start, 1, 8, 100))) + data[end:]


def _cut(rng: Random, data: bytes, _: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _leave_out(rng: Random, data: bytes, _: bytes) -> bytes:
    start, end = _range(rng, data)
    return data[:start] + data[end:]


def _repeat(rng: Random, data: bytes, _: bytes) -> bytes:
    start, end = _range(rng, data)
    return data[:end] + data[start:end] * rng.choice((1, 1, 2, 50)) + data[end:]


def _splice(rng: Random, data: bytes, other: bytes) -> bytes:
    start, end = _range(rng, data)
    first, last = _range(rng, other)
    return data[:start] + other[first:last] + data[end:]


def _swap(rng: Random, data: bytes, _: bytes) -> bytes:
    a, b, c, d = sorted(rng.randrange(len(data) + 1) for _ in range(4))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _number(rng: Random, data: bytes, _: bytes) -> bytes:
    """A fixed-width number made one more, one less, or extreme; a place that looks like a length is preferred."""
    width, order = rng.choice((2, 4, 4, 8)), rng.choice(("big", "big", "little"))
    if len(data) < width:
        return data
    places = [rng.randrange(len(data) - width + 1) for _ in range(12)]
    values = [int.from_bytes(data[at : at + width], order) for at in places]  # type: ignore[arg-type]
    at, value = next(
        ((at, value) for at, value in zip(places, values, strict=True) if 0 < value <= len(data)),
        (places[0], values[0]),
    )
    changed = rng.choice((value + 1, value - 1, len(data), value * 2, rng.choice(_NUMBERS), rng.choice(_NUMBERS)))
    packed = (changed % (1 << (8 * width))).to_bytes(width, order)  # type: ignore[arg-type]
    return data[:at] + packed + data[at + width :]


def _varint(rng: Random, data: bytes, _: bytes) -> bytes:
    """A varint made longer than it need be, longer than any may be, or extreme."""
    if not data:
        return data
    at = rng.randrange(len(data))
    kind = rng.randrange(4)
    if kind == 0:
        longer = bytes([data[at] | 0x80, *[0x80] * rng.randrange(9), 0])
    elif kind == 1:
        longer = b"\xff" * rng.choice((8, 9, 10, 11)) + bytes([rng.choice((0, 1, 2, 0x7F))])
    else:
        number = rng.choice(_NUMBERS)
        longer = varint(number << 1 ^ number >> 63 if kind == 2 else number)
    return data[:at] + longer + data[at + 1 :]


def varint(number: int) -> bytes:
    """A number as an unsigned varint of at most 64 bits."""
    number %= 1 << 64
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def zigzag(number: int) -> bytes:
    """A number as Avro's varint."""
    return varint(number << 1 ^ number >> 63)


def _pieces(rng: Random, data: bytes, other: bytes) -> bytes:
    """The blocks between magics (or lines, or items) moved, doubled, left out, or taken from the other input."""
    starts = [0, *sorted({found.start() for found in _MAGICS.finditer(data)} - {0}), len(data)]
    pieces = [data[a:b] for a, b in pairwise(starts)]
    if len(pieces) < 2:
        return _swap(rng, data, other)
    at, to = rng.randrange(len(pieces)), rng.randrange(len(pieces))
    match rng.randrange(5):
        case 0:
            pieces[at], pieces[to] = pieces[to], pieces[at]
        case 1:
            pieces.insert(to, pieces[at])
        case 2:
            del pieces[at]
        case 3:
            magic = _MAGICS.match(pieces[at])
            pieces.insert(at, magic.group() if magic else b"")
        case _:
            found = [match.start() for match in _MAGICS.finditer(other)]
            start = rng.choice(found) if found else 0
            pieces.insert(at, other[start : start + rng.choice((10, 100, len(other)))])
    return b"".join(pieces)


def _word(rng: Random, data: bytes, _: bytes) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(_TEXTS) + data[at + rng.choice((0, 0, 1, 4)) :]


def _digits(rng: Random, data: bytes, _: bytes) -> bytes:
    found = list(re.finditer(rb"[0-9]+", data))
    if not found:
        return data
    number = rng.choice(found)
    value = number.group()
    changed = rng.choice(
        (b"", b"0" + value, b"-" + value, value + b"9", value[:-1], b"%d" % (int(value[:40]) + 1), b"0" * len(value))
    )
    return data[: number.start()] + changed + data[number.end() :]


def _letter_case(rng: Random, data: bytes, _: bytes) -> bytes:
    start, end = _range(rng, data)
    return data[:start] + data[start:end].swapcase() + data[end:]


_BINARY: tuple[_Damage, ...] = (
    *(_flip, _byte, _byte, _random_bytes, _cut, _leave_out, _repeat, _splice, _swap),
    *(_number, _number, _number, _number, _varint, _varint, _varint, _pieces, _pieces, _word),
)
_TEXT: tuple[_Damage, ...] = (
    *(_word, _word, _word, _digits, _digits, _letter_case, _byte, _cut, _leave_out, _repeat, _splice, _swap, _pieces),
)
