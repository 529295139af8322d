"""Markers of running writes: how tasks announce their files, and who reads the announcements."""
