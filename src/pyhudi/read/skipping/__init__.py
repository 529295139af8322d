"""Data skipping: file slices without a row for a condition are left out, by statistics and indexes."""
