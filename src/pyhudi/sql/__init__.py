"""SQL on Hudi tables: which statements are Hudi's, what they say, and running them. Needs pyspark and sqlglot."""
