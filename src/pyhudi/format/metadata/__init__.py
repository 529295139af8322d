"""Bodies of instant files: commits, replace commits, rollbacks, cleans and compactions."""
