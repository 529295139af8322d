"""Catalogs: tables known by name, with their columns and partitions, kept right after writes."""
