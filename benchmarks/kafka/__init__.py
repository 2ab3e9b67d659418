"""Benchmarks on a real broker: commands, folds and appends."""
