"""Methods of DataFrames and their readers and writers that take the name of a table."""
