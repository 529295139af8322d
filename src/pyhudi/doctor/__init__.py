"""The doctor: what is wrong with a table, its store or this machine, and what mends it."""
