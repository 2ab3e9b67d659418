"""Segments: the files with the records of one partition."""
