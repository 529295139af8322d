"""Structured Streaming: streams from and into Hudi tables."""
