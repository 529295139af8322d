"""Avro containers and columnar Avro records."""
