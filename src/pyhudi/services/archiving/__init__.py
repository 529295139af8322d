"""Archiving: which instants leave the active timeline, and how they get into the archived one."""
