"""Logs into archives: from a cluster, an embedded log or a dump, as they are.

Offsets, gaps, times, headers and records of aborted transactions are kept. What an open transaction
holds back is taken once it is decided. Where a capture was killed the next one goes on.
"""
