"""Benchmark of queries on one archive, compared with other tools."""
