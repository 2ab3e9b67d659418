"""Logs and archives that benchmarks generate from a seed."""
