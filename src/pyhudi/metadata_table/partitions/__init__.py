"""The partitions of the metadata table, one module for each, and the protocol that they implement."""
