"""Benchmark of queries on one archive, beside other tools."""
