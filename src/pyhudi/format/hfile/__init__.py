"""HFile, the sorted key-value file of HBase that Hudi's metadata table and bootstrap index use."""
