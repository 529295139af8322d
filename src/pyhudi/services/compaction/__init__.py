"""Compaction: plan, schedule, execute."""
