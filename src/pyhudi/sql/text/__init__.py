"""Words of statements: tokens, names, clauses and relations, and quoting. Pure, but for errors."""
