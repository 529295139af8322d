"""The public face: `HudiTable` and what hangs on it."""
