"""Snapshots: states at the end of a day, stored in the archive."""
