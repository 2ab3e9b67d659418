"""Benchmarks of queries on many clusters."""
