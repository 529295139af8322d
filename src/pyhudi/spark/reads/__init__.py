"""Reads with Spark."""
