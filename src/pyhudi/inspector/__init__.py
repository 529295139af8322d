"""The inspector: a page that shows a table, its timeline, files, writes and services."""
