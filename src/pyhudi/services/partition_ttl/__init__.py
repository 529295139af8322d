"""Expiry of partitions by their age (Hudi's partition TTL), and the drop of whole partitions."""
