"""A check of stored record keys: whether they have the form that incoming rows get."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import UnsupportedFeatureError


def check_stored_keys(keys: pa.Array, patterns: Sequence[str]) -> None:
    """Refuse a table with a key that does not fit the patterns (`KeyGenerator.patterns_of_numbers`).

    Raises `UnsupportedFeatureError`: rows would not be found by their keys, and be stored a second time.
    """
    for pattern in patterns:
        fits = pc.match_substring_regex(keys, pattern)
        if fits.false_count:
            raise UnsupportedFeatureError(
                "record keys of this table hold timestamps as local times, as bulk inserts of JVM Hudi write them; "
                "this release writes microseconds and would store rows a second time: write this table with JVM Hudi",
                record_key=keys.filter(pc.invert(fits))[0].as_py(),
            )
