"""The state of a table and the only ways to change it."""
