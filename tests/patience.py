"""Patience of all tests with what lives: processes, brokers, workers, tasks of an event loop.

A test waits for a condition, never for a time. This bound only turns a hang into a failure; it is
far above what the slowest and busiest machine needs, so that load never fails a test.
"""

PATIENCE_S = 300
