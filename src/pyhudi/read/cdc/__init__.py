"""Reads of change data (CDC): the plan of a range, and its rows."""
