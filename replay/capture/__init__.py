"""Captures: logs into archives, from a cluster, an embedded log or a dump.

Offsets, gaps, times, headers and records of aborted transactions are kept. Records of an open
transaction are captured once it is decided. A capture continues where an earlier one was killed.
"""
