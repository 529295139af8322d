"""Services of the metadata table itself: its logs are merged, its old files deleted, its instants archived."""
