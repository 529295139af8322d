"""Parsers of what users write: options, date patterns, the text of values. Errors name the option, not a file."""

from __future__ import annotations

import math
import warnings
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from tests.fuzz import mutations
from tests.fuzz.target import Target, joined, require, split, text_of

from pyhudi.config.read_config import ReadConfig
from pyhudi.config.registry import OPTIONS
from pyhudi.config.write_config import WriteConfig
from pyhudi.errors import HudiError
from pyhudi.format.keys.java_dates import compile_pattern, format_times, parse_times, resolve_zone
from pyhudi.format.keys.timestamps import timestamp_key_options, timestamp_texts
from pyhudi.format.keys.value_text import value_text
from pyhudi.mergers import Stitching
from pyhudi.storage.options import client_settings, select_storage_options

_VALUES = (
    *(b"true", b"false", b"0", b"1", b"9", b"100", b"0.5", b"upsert", b"insert_overwrite", b"MERGE_ON_READ", b"a,b"),
    *(
        b"incremental",
        b"20260131235959999",
        b"a:SIMPLE,b:TIMESTAMP",
        b"CUSTOM",
        b"EVENT_TIME_ORDERING",
        b"latest_state",
    ),
    *(b"yyyy-MM-dd", b"DATE_STRING", b"GMT+8:00", b"BLOOM", b"stitching", b"_ts:a,b;_t2:c", b"[a-z]+", b""),
)


def _lines(data: bytes) -> dict[str, str]:
    pairs = (line.partition("=") for line in text_of(data).split("\n"))
    return {key: value for key, _, value in pairs if key}


def _options(rng: Random, _: bytes, __: bytes) -> bytes:
    """A few options with values of this or another option, damaged now and then."""
    keys = rng.sample(sorted(OPTIONS), k=rng.choice((1, 2, 5)))
    values = [rng.choice(_VALUES) for _ in keys]
    values = [mutations.text(rng, value, b"") if rng.random() < 0.5 else value for value in values]
    return b"\n".join(key.encode() + b"=" + value.replace(b"\n", b" ") for key, value in zip(keys, values, strict=True))


def _check_write_options(data: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        WriteConfig.from_options(_lines(data))


def _check_read_options(data: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ReadConfig.from_options(_lines(data))


def _check_storage_options(data: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = select_storage_options(_lines(data))
        for scheme in ("gs", "abfss"):
            with suppress(HudiError):
                client_settings(options, authority="c@b.dfs.core.windows.net", scheme=scheme)
        settings = client_settings(options, authority="b")
    require(settings.retries >= 0, "a negative number of retries")


def _patterns() -> tuple[bytes, ...]:
    pairs = {
        "yyyy-MM-dd'T'HH:mm:ss.SSSZ": "2026-01-31T23:59:59.999+0100",
        "yyyyMMdd": "20260131",
        "EEE, d MMM yyyy hh:mm a z": "Sat, 31 Jan 2026 11:59 PM UTC",
        "xxxx-'W'ww-e": "2026-W05-6",
        "yy/D k K": "26/31 24 0",
        "''": "'",
        "ZZ": "+01:00",
    }
    return tuple(joined(pattern.encode(), b"Europe/Berlin", text.encode()) for pattern, text in pairs.items())


def _check_dates(data: bytes) -> None:
    pattern_text, zone_text, value = (text_of(part) for part in split(data, 3))
    zone = resolve_zone(zone_text)
    pattern = compile_pattern(pattern_text)
    texts = pa.array([value.encode("utf-8", "replace").decode(), None, "2026"], pa.string())
    parsed = parse_times(texts, [pattern], zone)
    require(len(parsed.utc) == 3 and not parsed.is_valid[1], "null is a time")
    format_times(parsed.utc[parsed.is_valid], pattern, zone)
    moments = np.array([0, -1, 1_767_225_599_999, -62_135_596_800_000, 9_200_000_000_000_000_000], dtype=np.int64)
    shown = format_times(moments, pattern, zone)
    require(len(shown) == len(moments) and shown.null_count == 0, "a time without a text")


def _time_keys() -> tuple[bytes, ...]:
    lines = {
        "timestamp.type": "DATE_STRING",
        "input.dateformat": "yyyy-MM-dd,yyyyMMdd",
        "output.dateformat": "yyyy/MM/dd",
        "timezone": "GMT+8:00",
    }
    numbers = {"timestamp.type": "SCALAR", "timestamp.scalar.time.unit": "DAYS", "output.dateformat": "yyyy"}
    other = {**lines, "input.dateformat.list.delimiter.regex": "[,;]+", "input.timezone": "UTC"}
    prefix = "hoodie.keygen.timebased."
    return tuple("\n".join(f"{prefix}{k}={v}" for k, v in found.items()).encode() for found in (lines, numbers, other))


def _check_time_keys(data: bytes) -> None:
    options = timestamp_key_options(_lines(data))
    if options is None:
        return
    if options.kind.is_text:
        texts = timestamp_texts(pa.array([None, None], pa.string()), "t", options)
    else:
        texts = timestamp_texts(pa.array([0, None, 2**62, -(2**63)]), "t", options)
    require(texts.null_count == 0, "a time without a text")


def _check_values(data: bytes) -> None:
    """Java's text of numbers is that of the number, and no value is without text."""
    padded = data + bytes(-len(data) % 8)
    doubles = pa.array(np.frombuffer(padded, np.float64))
    for column in (doubles, pa.array(np.frombuffer(padded, np.float32))):
        kind = np.float64 if column.type == pa.float64() else np.float32
        for value, text in zip(column.to_pylist(), value_text(column).to_pylist(), strict=True):
            word = text.replace("Infinity", "inf")
            back = float(kind(word))
            require(back == value or (math.isnan(back) and math.isnan(value)), f"{value!r} is printed as {text}")
    longs = np.frombuffer(padded, np.int64)
    others: list[pa.Array] = [pa.array(longs), pa.array(longs.view(np.int32).astype("M8[D]")), pa.array([data])]
    others += [pa.array(longs).cast(pa.timestamp("us")), pa.array(np.frombuffer(padded, np.float16))]
    for column in others:
        found = value_text(column)
        require(len(found) == len(column) and found.null_count == column.null_count, "a value without a text")


def _check_stitching(data: bytes) -> None:
    rule = Stitching.parse(text_of(data))
    require(Stitching.parse(rule.text).sources == rule.sources, "another rule after printing and parsing")


def _damaged_numbers(rng: Random, data: bytes, other: bytes) -> bytes:
    return mutations.binary(rng, data, other)[:256] if rng.random() < 0.7 else rng.randbytes(64)


_SEEDS: tuple[Any, ...] = tuple(
    key.encode() + b"=" + value for key, value in zip(sorted(OPTIONS), _VALUES * 9, strict=False)
)

TARGETS = (
    Target(
        name="write-options",
        seeds=lambda: _SEEDS,
        mutate=mutations.several(_options, mutations.text),
        check=_check_write_options,
        names_path=False,
    ),
    Target(
        name="read-options",
        seeds=lambda: (
            b"hoodie.datasource.query.type=incremental\nhoodie.datasource.read.begin.instanttime=000",
            b"as.of.instant=2026-01-31",
            *_SEEDS[:3],
        ),
        mutate=mutations.several(_options, mutations.text),
        check=_check_read_options,
        names_path=False,
    ),
    Target(
        name="storage-options",
        seeds=lambda: (
            b"fs.s3a.endpoint=localhost:9000\nfs.s3a.path.style.access=false\nfs.s3a.attempts.maximum=3",
            b"fs.s3a.encryption.algorithm=SSE-KMS\nfs.s3a.bucket.bucket.encryption.key=k\nfs.s3a.proxy.host=h",
            b"fs.s3a.aws.credentials.provider=x.SimpleAWSCredentialsProvider\nfs.s3a.access.key=a\nfs.s3a.secret.key=b",
            b"fs.gs.auth.type=UNAUTHENTICATED\nfs.azure.account.key.b.dfs.core.windows.net=k\nfs.gs.proxy.address=h:1",
            b"aws_region=eu\nallow_http=true\ntimeout=1s",
        ),
        mutate=mutations.text,
        check=_check_storage_options,
        names_path=False,
    ),
    Target(
        name="date-pattern",
        seeds=_patterns,
        mutate=mutations.in_parts(mutations.text, mutations.text, mutations.text),
        check=_check_dates,
        share=0.5,
        names_path=False,
    ),
    Target(
        name="timestamp-keys",
        seeds=_time_keys,
        mutate=mutations.text,
        check=_check_time_keys,
        names_path=False,
    ),
    Target(
        name="value-text",
        seeds=lambda: (np.array([0.0, 1e-3, 1e7, 5e-324, math.inf, math.nan, 1.5, 123456789.123]).tobytes(), b"\0" * 8),
        mutate=_damaged_numbers,
        check=_check_values,
        share=0.25,
        names_path=False,
    ),
    Target(
        name="stitching",
        seeds=lambda: (b"_ts1:name,price;_ts2:stock", b"_t:a"),
        mutate=mutations.text,
        check=_check_stitching,
        names_path=False,
    ),
)
