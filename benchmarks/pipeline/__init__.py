"""Benchmark of a file pipeline, beside a Java worker."""
