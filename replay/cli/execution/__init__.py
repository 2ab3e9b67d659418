"""Execution of work on many clusters: engine choice, job loops, captures."""
