"""Bootstrap: a folder of Parquet files becomes a table, with its files where they are or with their rows copied."""
