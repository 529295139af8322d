"""How a table changes: the commit protocol."""
