"""Processes of contestants and programs that take part in several benchmarks."""
