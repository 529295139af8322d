"""Indexes: the file groups that hold given record keys."""
