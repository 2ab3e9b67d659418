"""Benchmark of a file pipeline, compared with a Java worker."""
