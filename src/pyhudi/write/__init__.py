"""The write operations, as flows over tasks."""
