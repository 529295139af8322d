"""Change data capture, switched for a table."""
