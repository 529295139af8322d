"""Expressions of Spark SQL, in which columns have the words of `CASE` for names."""

from __future__ import annotations

import random

EXPRESSIONS = [
    "case",
    "end",
    "mc.case = end + t.not",
    "case - 1",
    "case + case.when",
    "s.end > then AND NOT t.`when`",
    "CASE WHEN s.end > 3 THEN true ELSE false END",
    "CASE WHEN end THEN end ELSE end END - end",
    "CASE s.end WHEN 1 THEN 'a' WHEN case THEN 'b' END",
    "CASE WHEN CASE when1 WHEN 1 THEN a END THEN CASE WHEN b THEN case ELSE 3 END ELSE end END",
    "(CASE WHEN a THEN b END, case)",
    "a IS NOT DISTINCT FROM end AND b NOT IN (1, 2)",
    "x LIKE 'a' || 'b' ESCAPE '/' OR y NOT BETWEEN end AND then",
    "a::struct<x: int, y: array<map<int, int>>>.x + a::decimal(3, 1)",
    "4 >>> 1 >> -2 <=> ~end",
    "a>-1 AND a = - - b",
    "X '1F' = X'1F' AND d = DATE '2026-01-31' + INTERVAL 1 DAY",
    "sum(x) FILTER (WHERE x > 1) OVER (PARTITION BY end ORDER BY case) + xs[end].case",
    "id IN (SELECT id FROM s WHERE CASE WHEN a THEN b END) AND exists (TABLE t)",
    "transform(xs, x -> x + 1)[0] * 10L COLLATE UTF8_LCASE",
    "v.path.end[0]::int = array(1)[0]",
]


def expression_over_words(rng: random.Random, depth: int) -> str:
    """An expression of Spark's grammar, most of whose columns have the words of `CASE` for names."""
    left, right = _value(rng, depth), _value(rng, depth)
    forms = [
        left,
        f"{left} {rng.choice(['+', '-', '=', 'AND', 'OR', 'IS DISTINCT FROM', 'NOT LIKE'])} {right}",
        f"{left} IS NOT NULL AND {right}",
        f"{left} BETWEEN {_column(rng)} AND {right}",
        f"NOT {left} OR {right}",
    ]
    return rng.choice(forms)


def _column(rng: random.Random) -> str:
    return rng.choice(["end", "then", "t.case", "s.when", "`case`", "else", "1", "'end'", "f(case, end)"])


def _value(rng: random.Random, depth: int) -> str:
    if depth == 0:
        return _column(rng)
    inner = [expression_over_words(rng, depth - 1) for _ in range(6)]
    forms = [
        _column(rng),
        f"CASE WHEN {inner[0]} THEN {inner[1]} END",
        f"CASE {inner[0]} WHEN {inner[1]} THEN {inner[2]} WHEN {inner[3]} THEN {inner[4]} ELSE {inner[5]} END",
    ]
    return rng.choice(forms)
