"""Record keys in the footer of a base file: a bloom filter, the smallest and the largest key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from pyhudi.format.bloom import (
    BLOOM_FILTER_KEY,
    BLOOM_FILTER_KIND_KEY,
    MAX_RECORD_KEY_KEY,
    MIN_RECORD_KEY_KEY,
    BloomFilterBuilder,
    BloomFilterType,
    min_max_keys,
    parse_bloom_filter,
    rate_for_keys,
    stored_rate,
    widest_range,
)


@dataclass(frozen=True, slots=True)
class BloomSettings:
    """Parameters of the bloom filter in a new base file (`hoodie.index.bloom.*`)."""

    kind: BloomFilterType
    num_entries: int
    fpp: float
    max_entries: int

    def rate(self, keys: int) -> float:
        """The false positive rate of a filter that is made for this many keys."""
        return rate_for_keys(self.kind, keys, num_entries=self.num_entries, fpp=self.fpp, max_entries=self.max_entries)


_OUTGROWN = 2
"""By how many times the false positives of a filter may exceed those of a new one: as much as a second row adds."""


class KeyFooter:
    """Collects the keys of one file."""

    def __init__(self, settings: BloomSettings) -> None:
        self._settings = settings
        self._bloom: BloomFilterBuilder | None = None
        self._text: str | None = None
        """The filter as the previous version has it, while no key was added: to decode and encode it takes 2 ms."""
        self._previous_path: str | None = None
        self._range: tuple[str, str] | None = None

    @classmethod
    def of_previous_version(
        cls, settings: BloomSettings, footer: Mapping[str, str], path: str, *, keys: int
    ) -> KeyFooter | None:
        """Start with the keys of the previous version, so that a rewrite adds new keys only.

        `keys`: how many the file will have. None if the footer of the previous file has no keys, or another kind of
        filter, or one that is too small for so many. The filter is decoded when the first key is added.
        """
        text, low, high = (footer.get(key) for key in (BLOOM_FILTER_KEY, MIN_RECORD_KEY_KEY, MAX_RECORD_KEY_KEY))
        kind = BloomFilterType.from_footer(footer.get(BLOOM_FILTER_KIND_KEY), path=path)
        if text is None or low is None or high is None or kind is not settings.kind:
            return None
        rate = stored_rate(text, kind, keys, max_entries=settings.max_entries, path=path)
        if kind is BloomFilterType.DYNAMIC_V0 and rate > _OUTGROWN * settings.rate(keys):
            return None
        resumed = cls(settings)
        resumed._text, resumed._previous_path = text, path
        resumed._range = (low, high)
        return resumed

    def add(self, keys: pa.Array, *, expected: int) -> None:
        """Add the keys of rows, in their order. `expected`: about how many keys the file will have."""
        self._begun(expected).add(keys)
        self._text = None
        ranges = [min_max_keys(keys)] if self._range is None else [self._range, min_max_keys(keys)]
        self._range = widest_range(ranges)

    def values(self) -> dict[str, str]:
        """The footer's key-value pairs."""
        kind = self._settings.kind.value
        footer = {BLOOM_FILTER_KEY: self._text or self._begun(0).to_text(), BLOOM_FILTER_KIND_KEY: kind}
        if self._range is not None:
            footer[MIN_RECORD_KEY_KEY], footer[MAX_RECORD_KEY_KEY] = self._range
        return footer

    def _begun(self, expected: int) -> BloomFilterBuilder:
        if self._bloom is None:
            asked = self._settings
            if self._text is not None:
                stored = parse_bloom_filter(self._text, asked.kind, path=self._previous_path)
                self._bloom = BloomFilterBuilder.resume(stored, max_entries=asked.max_entries)
                return self._bloom
            self._bloom = BloomFilterBuilder.for_keys(
                asked.kind, expected, num_entries=asked.num_entries, fpp=asked.fpp, max_entries=asked.max_entries
            )
        return self._bloom
