"""Codecs of the metadata table: its records, their keys, and the definitions of indexes."""
