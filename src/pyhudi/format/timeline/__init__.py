"""Instants, table versions, and the archived timeline."""
