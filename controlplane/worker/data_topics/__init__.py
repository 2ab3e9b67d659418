"""Clients of tasks: producers and consumers of data topics, and consumer groups."""
