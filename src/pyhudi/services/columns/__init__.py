"""Changes of a table's columns without rows."""
