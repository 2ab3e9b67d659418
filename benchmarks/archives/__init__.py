"""Benchmarks of the size of archives, their merges and their captures."""
