"""Tools for testing tables: fault injection, the simulator and the isolation checker. Users may use them, too."""
