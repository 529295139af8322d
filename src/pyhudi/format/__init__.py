"""The table format: bytes and values in, bytes and values out. Pure."""
