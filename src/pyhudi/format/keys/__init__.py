"""Record keys and partition paths, as Hudi's key generators make them."""
