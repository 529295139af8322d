"""Rows that MERGE, UPDATE and DELETE change, as a plan and computed in Arrow."""
