"""Tools for testing tables, shipped for users too."""
