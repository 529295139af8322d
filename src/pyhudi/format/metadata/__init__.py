"""What completed and planned actions say in their files: commits, replaces, rollbacks, cleans, compactions."""
