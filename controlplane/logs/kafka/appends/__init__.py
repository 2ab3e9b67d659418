"""Appends of records: in transactions, as single batches, or independent of each other."""
