"""Spark: sessions, the engine and `format("hudi")`. The only package that imports pyspark."""
