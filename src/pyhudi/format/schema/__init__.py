"""Schemas: Avro and Arrow, evolution, and the meta columns."""
