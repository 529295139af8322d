"""Clustering: plan, schedule, execute."""
