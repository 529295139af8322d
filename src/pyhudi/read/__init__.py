"""Reads: which files, which rows, and into what."""
