"""Which concurrent actions conflict, and the check before a commit."""
