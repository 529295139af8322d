"""Transactions: the commit protocol, which is the only way in which a table changes."""
