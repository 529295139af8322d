"""Key generators: record keys and partition paths."""
