"""Conflicts of concurrent actions: the table of conflicts, and the check before a commit."""
