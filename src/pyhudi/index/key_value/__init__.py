"""Indexes that remember the file group of each key outside of the table: INMEMORY, HBASE, an index of the user's."""
