"""Values of a column that was text, or a fraction, and is of dates or decimals since.

JVM Hudi changes such types, and rounds fractions half up to the digits of the decimal, as this does. Where a value has
no date or decimal, JVM Hudi shows null, or fails, by the kind of file. A rewrite would lose the value with that, so it
is an error here.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.format.keys.value_text import value_text

_DIGITS_OF_A_DOUBLE: Final = 17
_DIGITS_MAX: Final = 76
"""Of Arrow's widest decimals."""
_DIGITS_BEHIND: Final = 38


def is_reread_as(stored: pa.DataType, target: pa.DataType) -> bool:
    """Whether stored values of one type without nesting are read as another one if they can all be."""
    if pa.types.is_date(target):
        return bool(pa.types.is_string(stored))
    is_fraction = bool(pa.types.is_floating(stored))
    return bool(pa.types.is_decimal(target)) and (is_fraction or bool(pa.types.is_string(stored)))


def reread(values: pa.Array, target: pa.DataType) -> pa.Array:
    """The values as dates or decimals. Raises `pa.ArrowInvalid` naming one that has none.

    Dates are `2026-01-05`; of decimals, exponents count, and spaces do not. NaN and infinite numbers are no decimals.
    """
    if pa.types.is_date(target):
        return pc.cast(values, target)
    scale = target.scale
    if pa.types.is_floating(values.type):
        # What is below a tenth of the last digit is zero; its text may have more digits than Arrow reads.
        is_nothing = pc.less(pc.abs(values), 10.0 ** -(scale + 1))
        values = value_text(pc.if_else(is_nothing, pa.scalar(0, values.type), values))
    behind = max(_DIGITS_BEHIND, scale + 1 + _DIGITS_OF_A_DOUBLE)
    exact = pc.cast(values, pa.decimal256(_DIGITS_MAX, behind))
    return pc.cast(pc.round(exact, scale, "half_towards_infinity"), target)
