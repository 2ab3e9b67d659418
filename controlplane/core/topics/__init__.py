"""Placement of records: connector of a key, topics and keys of source offsets, partitioner."""
