"""Which input has which number: first the undamaged ones and the beginnings of small ones, then damaged ones for ever.

An input depends on its target, the seed and the number alone, so that a failure of any run can be seen again.
"""

from __future__ import annotations

from functools import cache
from itertools import islice
from random import Random

from tests.fuzz.target import INPUT_BYTES_MAX, Target

_CUTS_MAX = 1000


@cache
def _first(target: Target) -> tuple[bytes, ...]:
    """Every seed, and the smallest ones cut off at every byte."""
    seeds = target.seeds()
    cuts = (data[:length] for data in sorted(seeds, key=len) for length in range(len(data)))
    return (*seeds, *islice(cuts, _CUTS_MAX))


@cache
def _seeds(target: Target) -> tuple[bytes, ...]:
    return target.seeds()


def input_of(target: Target, seed: int, number: int) -> bytes:
    """The input of this number."""
    first = _first(target)
    if number < len(first):
        return first[number]
    rng = Random(f"{target.name} {seed} {number}")
    seeds = _seeds(target)
    data = rng.choice(seeds)
    try:
        return target.mutate(rng, data, rng.choice(seeds))[:INPUT_BYTES_MAX]
    except RecursionError:
        return data  # the damage made JSON too deep for Python's own library to write
