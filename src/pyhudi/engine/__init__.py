"""Engines, which run the tasks of writes and table services: in this process, or on a Spark cluster."""
