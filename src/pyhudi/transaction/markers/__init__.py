"""Markers of running writes: how tasks create them, and how other writers read them."""
