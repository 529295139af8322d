"""Tasks: what runs on a worker of the engine."""
