"""Folders of Parquet files that are no Hudi tables, for bootstraps."""

from __future__ import annotations

import base64
import datetime as dt
import io
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

from pyhudi.format.bootstrap_index import SourcePartition, write_partitions

SOURCE_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("n", pa.int32()),
        ("x", pa.float64()),
        ("ts", pa.int64()),
        ("when", pa.timestamp("us", tz="UTC")),
    ]
)
ROWS_PER_FILE = 5


def parquet_source(folder: Path, cities: str = "ab", files: int = 2) -> Path:
    """Folders `city=a`, `city=b`, each with files of five rows in row groups of two; keys such as `a13`."""
    for city in cities:
        (folder / f"city={city}").mkdir(parents=True)
        for number in range(files):
            of_file = [
                {
                    "id": f"{city}{number}{i}",
                    "n": i,
                    "x": i * 1.5 if i % 3 else None,
                    "ts": 10,
                    "when": dt.datetime(2024, 1, 1, i, tzinfo=dt.UTC),
                }
                for i in range(ROWS_PER_FILE)
            ]
            table = pa.Table.from_pylist(of_file, SOURCE_SCHEMA)
            pq.write_table(table, folder / f"city={city}" / f"part-{number}.parquet", row_group_size=2)
    return folder


def encoded_partitions(partitions: Sequence[SourcePartition], source_folder: str) -> bytes:
    """The content of the file `.partitions` of a bootstrap index."""
    sink = io.BytesIO()
    write_partitions(partitions, sink.write, source_folder=source_folder, created_ms=1)
    return sink.getvalue()


def encrypt(path: Path, column: str, *, plaintext_footer: bool = False) -> None:
    """Write a Parquet file again with an encrypted column, and with an encrypted footer or a signed one."""

    class Keys(pe.KmsClient):
        def __init__(self, _: pe.KmsConnectionConfig) -> None:
            super().__init__()

        def wrap_key(self, key_bytes: bytes, _: str) -> bytes:
            return base64.b64encode(key_bytes)

        def unwrap_key(self, wrapped_key: bytes, _: str) -> bytes:
            return base64.b64decode(wrapped_key)

    file = pq.ParquetFile(path)
    rows, metadata = file.read(), file.metadata.metadata or {}
    asked = pe.EncryptionConfiguration(
        footer_key="f", column_keys={"c": [column]}, plaintext_footer=plaintext_footer, double_wrapping=False
    )
    properties = pe.CryptoFactory(Keys).file_encryption_properties(pe.KmsConnectionConfig(), asked)
    with pq.ParquetWriter(path, rows.schema, encryption_properties=properties) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(metadata)
