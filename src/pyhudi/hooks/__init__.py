"""Hooks: commit callbacks."""
