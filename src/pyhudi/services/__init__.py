"""Table services: what keeps a table healthy beside its writes."""
