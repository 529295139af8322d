"""Table functions of Hudi: `hudi_table_changes` and the others."""
