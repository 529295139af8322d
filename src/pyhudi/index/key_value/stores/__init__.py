"""External stores that an index keeps its entries in."""
