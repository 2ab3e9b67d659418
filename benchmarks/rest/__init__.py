"""Benchmarks of the REST API."""
