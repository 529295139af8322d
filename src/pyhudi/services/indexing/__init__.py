"""Building and dropping indexes: partitions of the metadata table that a user asks for by name."""
