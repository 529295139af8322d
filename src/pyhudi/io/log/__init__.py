"""Log files, read through the Storage."""
