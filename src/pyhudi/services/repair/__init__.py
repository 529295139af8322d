"""Repairs of a table on request, each under the table lock: none of them changes what readers see of its rows."""
