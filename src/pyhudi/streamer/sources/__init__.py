"""Sources of the streamer: what is new in them since a checkpoint, and its rows as Arrow."""
