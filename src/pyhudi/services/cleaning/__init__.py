"""Cleaning: plan, execute."""
