"""Merging of record versions: rules, ordering, and mergers."""
