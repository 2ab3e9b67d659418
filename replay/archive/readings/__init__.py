"""Readings: how far each capture has read the partitions, and when."""
