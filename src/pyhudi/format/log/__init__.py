"""Blocks of log files."""
