"""Changing the version of a table: upgrade and downgrade."""
