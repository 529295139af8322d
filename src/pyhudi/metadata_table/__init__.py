"""The metadata table: what it knows of the table, and how a commit keeps it."""
