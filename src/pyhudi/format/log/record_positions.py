"""The header RECORD_POSITIONS: where in the base file the records of a log block are.

Base64 of a set of row numbers in the portable format of 64-bit Roaring bitmaps. Positions count from 0 in the base file
that BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS names. A set has no order of its own, so the records of a block with
positions are sorted by them: the n-th record has the n-th position.

Source: `format/logs-and-indexes.md` 1.4.
"""

from __future__ import annotations

import array
import base64
from typing import Final

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from pyhudi.errors import CorruptDataError

Positions = npt.NDArray[np.int64]

POSITIONS_MAX: Final = 1 << 24
"""Of one block. A few hundred bytes of text can stand for billions of positions, which must not fill the memory; a
block of the usual 256 MiB has room for a quarter of these records."""


def encode_positions(positions: Positions) -> str:
    """The header's text for row numbers, strictly ascending and not negative, int64 of shape `[records]`.

    Cost: about 40 ms for a million.
    """
    assert len(positions) == 0 or positions[0] >= 0, "a negative position"
    assert bool(np.all(positions[1:] > positions[:-1])), "positions that are not strictly ascending"
    # From this kind of array the library takes all values in one call; from numpy's, one by one.
    bitmap = BitMap64(array.array("Q", positions.astype(np.uint64).tobytes()))
    bitmap.run_optimize()
    return base64.b64encode(bitmap.serialize()).decode("ascii")


def decode_positions(text: str, *, path: str, offset: int) -> Positions:
    """Row numbers in the base file, strictly ascending, int64 of shape `[records]`.

    Args:
        text: The header's text.
        path: The log file, for errors.
        offset: The block's offset in it, for errors.

    Raises:
        CorruptDataError: not such a bitmap, or one with more than `POSITIONS_MAX` positions.
    """
    try:
        # It checks the bitmap as a whole (since pyroaring 1.0.2), so that damaged bytes cannot harm what follows.
        bitmap = BitMap64.deserialize(base64.b64decode(text, validate=True))
    except (ValueError, IndexError) as cause:
        raise CorruptDataError("a log block's record positions do not parse", path=path, offset=offset) from cause
    if len(bitmap) > POSITIONS_MAX:
        raise CorruptDataError("a log block has too many record positions", path=path, offset=offset, count=len(bitmap))
    if len(bitmap) and bitmap.max() > np.iinfo(np.int64).max:
        raise CorruptDataError("a log block has impossible record positions", path=path, offset=offset)
    return np.frombuffer(bitmap.to_array(), dtype=np.uint64).astype(np.int64)
