"""How the versions of a record become one: rules, ordering, and mergers."""
