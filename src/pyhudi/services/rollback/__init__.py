"""Rollback: of writes that failed, and of writes on request."""
