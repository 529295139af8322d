"""Statements, one module per verb: a parser to a frozen value, and what the value does when it runs."""
