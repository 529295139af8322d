"""The archived timeline, read: actions, logs of version 6, and the writes that it knows."""
