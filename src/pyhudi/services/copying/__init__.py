"""Copies of a table in another folder, whole or of its newest state, made while others write the table."""
