"""Owners of keys, topics and keys of source offsets, Kafka's partitioner."""
