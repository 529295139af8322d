"""Metrics and traces: what becomes of the engine's events."""
