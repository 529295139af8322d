"""Parquet footers: decoding and encoding them without their columns."""
