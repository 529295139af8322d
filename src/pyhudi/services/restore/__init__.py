"""Restore: the table as it was after one of its writes."""
