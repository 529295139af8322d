"""File slices: base file and logs as one stream of rows."""
