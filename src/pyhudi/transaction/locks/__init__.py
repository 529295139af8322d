"""Keepers of the table lock that JVM writers can share, one module each."""
