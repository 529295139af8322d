"""Comparisons of the metadata table with the table: its files, statistics and indexes."""
