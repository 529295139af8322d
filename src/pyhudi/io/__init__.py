"""What happens inside one task: rows are keyed, exchanged, merged and written."""
