"""Tables by name: Spark's session catalog, names in statements, entries, and making tables."""
