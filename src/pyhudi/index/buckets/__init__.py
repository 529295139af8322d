"""Bucket indexes: the hash of a record key is its bucket, and a bucket is a file group."""
