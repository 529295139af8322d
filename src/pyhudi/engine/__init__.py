"""What runs the tasks of a write: this process, or a Spark cluster."""
